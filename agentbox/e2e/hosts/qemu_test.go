package hosts

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// suites are the releases of Debian whose QEMU is tested.
var suites = []string{"oldstable", "stable", "testing"}

// enter runs a program in another root. The program sees none of our processes and mounts, and ends
// with us.
const enter = `mount -t proc proc "$0/proc"; mount --rbind /dev "$0/dev"; mount -t tmpfs tmpfs "$0/tmp"; cp -r "$1/." "$0/tmp"
exec chroot "$0" /usr/bin/env TMPDIR=/tmp AGENTBOX_TEST_KERNEL=/tmp/kernel /tmp/qemu.test -test.v -test.count=1 -test.run "$2"`

// TestEveryQEMU runs the conformance suite of machines with each QEMU: it boots, saves, restores
// and refuses.
func TestEveryQEMU(t *testing.T) {
	cache(t)
	files := t.TempDir()
	testBinary(t, "./vmm/qemu", filepath.Join(files, "qemu.test"))
	run(t, "", nil, "cp", "-r", guestKernel(t), filepath.Join(files, "kernel"))
	for _, suite := range suites {
		t.Run(suite, func(t *testing.T) {
			root := makeRoot(t, suite, "e2fsprogs", "qemu-system-x86")
			version, err := exec.CommandContext(t.Context(), "chroot", root, "qemu-system-x86_64", "--version").Output()
			need(t, err)
			t.Logf("%s", version)
			cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", enter, root, files, "^TestConformance$")
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			if err := cmd.Run(); err != nil {
				t.Errorf("the suite in %s: %v", root, err)
			}
		})
	}
}
