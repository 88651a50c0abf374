package qemu

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/vmm"
)

// script makes a QEMU that is a shell script; it gets QEMU's arguments.
func script(t *testing.T, body string) string {
	path := filepath.Join(t.TempDir(), "qemu")
	content := "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'QEMU emulator version 99.1 (fake)'; exit; fi\n" + body + "\n"
	if err := durable.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func fakeSpec(t *testing.T) vmm.Spec {
	dir := t.TempDir()
	for _, name := range []string{kernelFile, initrdFile, "image"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return vmm.Spec{Name: "fake", Dir: t.TempDir(), Image: filepath.Join(dir, "image"), Kernel: dir, CPUs: 1, Memory: 64 << 20, Disk: 64 << 20}
}

func TestNoQEMU(t *testing.T) {
	d := New(Config{Binary: "/nonexistent/qemu", StateDir: t.TempDir()})
	_, err := d.Probe(context.Background(), false)
	if agentbox.CodeOf(err) != agentbox.Missing || agentbox.AsError(err).Hint == "" {
		t.Errorf("got %v", err)
	}
	if _, err := d.Boot(context.Background(), fakeSpec(t)); agentbox.CodeOf(err) != agentbox.Missing {
		t.Errorf("boot: %v", err)
	}
}

func TestQEMUExitIsExplained(t *testing.T) {
	needTools(t)
	d := New(Config{Binary: script(t, "echo 'qemu-system-x86_64: no such machine' >&2; exit 1"), StateDir: t.TempDir(), Accel: accelTCG})
	_, err := d.Boot(context.Background(), fakeSpec(t))
	if err == nil || !strings.Contains(err.Error(), "no such machine") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}

func TestSilentQEMU(t *testing.T) {
	needTools(t)
	d := New(Config{Binary: script(t, "exec sleep 1000"), StateDir: t.TempDir(), Accel: accelTCG})
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if m, err := d.Boot(ctx, fakeSpec(t)); err == nil {
		m.Kill()
		t.Error("a silent QEMU is a machine")
	}
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("it took %v to give up", took)
	}
}

func TestFingerprint(t *testing.T) {
	ctx, spec := context.Background(), fakeSpec(t)
	state := t.TempDir()
	d := New(Config{Binary: script(t, ""), StateDir: state, Accel: accelTCG})
	print := func(d *Driver, s vmm.Spec) string {
		t.Helper()
		f, err := d.Fingerprint(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	first := print(d, spec)
	same := spec
	same.Name, same.Dir, same.Workspace, same.Image = "other", t.TempDir(), "/w", "/i"
	if print(d, same) != first {
		t.Error("a fingerprint depends on paths of one machine")
	}
	if print(New(d.config), spec) != first {
		t.Error("another process has another fingerprint")
	}
	moved := script(t, "")
	if print(New(Config{Binary: moved, StateDir: t.TempDir(), Accel: accelTCG}), spec) != first {
		t.Error("the same QEMU on another host has another fingerprint")
	}
	if print(New(Config{Binary: script(t, "# newer"), StateDir: state, Accel: accelTCG}), spec) == first {
		t.Error("another QEMU has the same fingerprint")
	}
	if print(New(Config{Binary: d.config.Binary, StateDir: state, Accel: accelKVM}), spec) == first {
		t.Error("another acceleration has the same fingerprint")
	}
	if err := os.WriteFile(filepath.Join(spec.Kernel, initrdFile), []byte("new agent"), 0o600); err != nil {
		t.Fatal(err)
	}
	if print(d, spec) == first {
		t.Error("another initrd has the same fingerprint")
	}
}

func TestInvalidMemo(t *testing.T) {
	state := t.TempDir()
	if err := os.WriteFile(filepath.Join(state, memoFile), []byte(`{"binary": 7`), 0o600); err != nil {
		t.Fatal(err)
	}
	facts, err := New(Config{Binary: script(t, ""), StateDir: state, Accel: accelTCG}).Probe(context.Background(), false)
	if err != nil || facts.Version != "99.1 (fake)" {
		t.Errorf("got %+v, %v", facts, err)
	}
}

func TestProbeGuest(t *testing.T) {
	for what, test := range map[string]struct{ body, want string }{
		"works":    {"printf 'agentbox: the first program runs\\n' >&5; exec sleep 1000", ""},
		"dies":     {"echo 'qemu: error: failed to set MSR' >&2; exit 1", "QEMU cannot use it (qemu: error: failed to set MSR, exit status 1)"},
		"silent":   {"exit 3", "QEMU cannot use it (it said nothing, exit status 3)"},
		"resets":   {"printf '[ 0.1] first\\r\\n[ 0.2] triple \\033[31mfault\\r\\n' >&5; exit 0", `ended before its first program ran; the last it printed: "[ 0.2] triple \x1b[31mfault"`},
		"resets 2": {"exit 0", "ended before its first program ran, and printed nothing"},
		"flood":    {"exec yes >&5", "printed without end"},
	} {
		got, err := probeGuest(context.Background(), script(t, test.body), "/k", probeLimits)
		if err != nil || (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := probeGuest(ctx, script(t, "exec sleep 1000"), "/k", probeLimits); err == nil {
		t.Error("a probe that was cancelled has a verdict")
	}
}

// A guest that prints is a guest that boots, however slowly; one that is silent, or goes on for
// ever, does not.
func TestProbeWaitsWhileGuestPrints(t *testing.T) {
	const slow = "for i in 1 2 3 4 5 6 7 8; do sleep 0.5; echo $i >&5; done; "
	for what, test := range map[string]struct {
		body, want string
		limits
	}{
		"slow":   {slow + "echo agentbox: the first program runs >&5; exec sleep 1000", "", limits{time.Minute, 3 * time.Second, time.Minute}},
		"stuck":  {"echo 1 >&5; exec sleep 1000", "printed nothing for 200ms; the last it printed: \"1\"", limits{time.Minute, 200 * time.Millisecond, time.Minute}},
		"hung":   {"echo QEMU greets >&3; exec sleep 1000", "printed nothing for 100ms", limits{100 * time.Millisecond, time.Minute, time.Minute}},
		"no end": {"while :; do echo 1 >&5; sleep 0.1; done", "did not boot within 500ms", limits{time.Minute, time.Minute, 500 * time.Millisecond}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			got, err := probeGuest(t.Context(), script(t, test.body), "/k", test.limits)
			if err != nil || (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// noGuest is a QEMU that makes a machine without a guest, and leaves.
const noGuest = `case "$*" in *" -qmp stdio") exit 0;; esac; `

// A kernel is fetched only for a KVM that QEMU can use, and one that cannot be had only once.
func TestProbeAsksForKernelLast(t *testing.T) {
	device := filepath.Join(t.TempDir(), "kvm")
	if err := os.WriteFile(device, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tries := 0
	probe := func(body string) (vmm.Facts, error) {
		d := New(Config{Binary: script(t, body), StateDir: t.TempDir(), Kernel: func(context.Context) (string, error) {
			tries++
			return "", errors.New("no network")
		}})
		d.device = device
		d.Probe(t.Context(), false)
		return d.Probe(t.Context(), false)
	}
	facts, err := probe("echo 'error: failed to set MSR' >&2; exit 1")
	if err != nil || tries != 0 || facts.Accel != accelTCG || !strings.Contains(facts.Reason, "failed to set MSR") {
		t.Errorf("unusable: %+v, %v, the kernel was asked for %d times", facts, err, tries)
	}
	if _, err := probe(noGuest); err == nil || err.Error() != "no network" || tries != 1 {
		t.Errorf("usable: %v, the kernel was asked for %d times", err, tries)
	}
}

// Each machine's start has udev touch the device.
func TestVerdictIgnoresDeviceTimes(t *testing.T) {
	t.Parallel()
	tries := 0
	config := Config{
		Binary: script(t, noGuest+"echo agentbox: the first program runs >&5; exec sleep 1000"), StateDir: t.TempDir(),
		Kernel: func(context.Context) (string, error) { tries++; return "/k", nil },
	}
	device := filepath.Join(t.TempDir(), "kvm")
	probe := func(d *Driver) {
		t.Helper()
		d.device = device
		if facts, err := d.Probe(t.Context(), false); err != nil || facts.Accel != accelKVM {
			t.Errorf("%+v, %v", facts, err)
		}
	}
	if err := os.WriteFile(device, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first := New(config)
	probe(first)
	time.Sleep(1100 * time.Millisecond) // a change of mode is seen in whole seconds
	if err := os.Chmod(device, 0o660); err != nil {
		t.Fatal(err)
	}
	probe(first)
	probe(New(config)) // as in another process
	if tries != 1 {
		t.Errorf("KVM was tried %d times", tries)
	}
	if err := os.Remove(device); err != nil {
		t.Fatal(err)
	}
	if facts, err := first.Probe(t.Context(), false); err != nil || facts.Accel != accelTCG {
		t.Errorf("without the device: %+v, %v", facts, err)
	}
}
