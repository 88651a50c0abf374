package qemu

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/vmm/confine"
)

// A VMM that a guest has taken over is a program that tries to open what it likes: here a script in
// QEMU's place.
func TestMachineProcessReachesItsFilesOnly(t *testing.T) {
	needTools(t)
	if err := confine.Available(); err != nil {
		t.Skip(err)
	}
	secret := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := fakeSpec(t)
	spec.Workspace = filepath.Join(t.TempDir(), "workspace")
	if err := os.WriteFile(spec.Workspace, []byte("work"), 0o600); err != nil {
		t.Fatal(err)
	}
	runtime, beside := filepath.Join(spec.Dir, runtimeFile), filepath.Join(spec.Dir, "new")
	kernel := filepath.Join(spec.Kernel, kernelFile)
	// Standard output leads nowhere already; what is tried complains there.
	body := fmt.Sprintf(`exec 9>&2 2>&1
try() { what=$1; shift; "$@" && printf '%%s,' "$what" >&9; }
append() { echo x >>"$1"; }
try 'reads key' head -c1 %q; try 'reads users' head -c1 /etc/passwd; try 'reads image' head -c1 %q
try 'writes runtime' append %q; try 'writes workspace' append %q
try 'writes image' append %q; try 'writes kernel' append %q; try 'writes key' append %q; try 'makes a file' append %q
exit 1`, secret, spec.Image, runtime, spec.Workspace, spec.Image, kernel, secret, beside)
	d := New(Config{Binary: script(t, body), StateDir: t.TempDir(), Accel: accelTCG})
	_, err := d.Boot(context.Background(), spec)
	if err == nil || !strings.HasSuffix(err.Error(), ": reads image,writes runtime,writes workspace,") {
		t.Errorf("what runs a machine: %v", err)
	}
	if _, err := os.Stat(beside); err == nil {
		t.Error("it made a file in the machine's directory")
	}
}

func TestFilesOfACommand(t *testing.T) {
	m := &machine{spec: fakeSpec(t), runtime: "/box/runtime.img", workspace: "/space"}
	boot := describe(m, accelTCG).files("/q")
	clone := describe(m, accelKVM)
	clone.Incoming = true
	restore := clone.files("/q")
	if got := fmt.Sprint(boot.Write); got != "[/box/runtime.img /space]" {
		t.Errorf("a booting machine writes %s", got)
	}
	if got := fmt.Sprint(restore.Write); got != "[/dev/kvm /box/runtime.img /space]" {
		t.Errorf("a clone with KVM writes %s", got)
	}
	reads := func(f confine.Files, path string) bool { return strings.Contains(fmt.Sprint(f.Read), path) }
	kernel := filepath.Join(m.spec.Kernel, kernelFile)
	if !reads(boot, kernel) || reads(restore, kernel) || !reads(boot, m.spec.Image) || !reads(restore, m.spec.Image) {
		t.Errorf("read: boot %v, clone %v", boot.Read, restore.Read)
	}
}
