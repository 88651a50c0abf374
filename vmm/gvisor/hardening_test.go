package gvisor_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"agentbox/vmm/guest/protocol"
)

// What holds a guest that has taken over gVisor itself: each process of the machine has namespaces
// of its own, sees no file of the host but the machine's, filters its system calls and is nobody on
// the host.
func TestMachineProcessesAreConfined(t *testing.T) {
	h := realHarness(t)
	m := ok(h.Driver.Boot(t.Context(), inDir(t, h.Spec)))(t)
	defer m.Kill()
	greet(t, m)
	pids := m.PIDs()
	for i, what := range []string{"launcher", "file server", "sandbox"} {
		for _, ns := range []string{"user", "net", "mnt", "pid", "ipc", "uts"} {
			theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pids[i], ns))
			if ours := ok(os.Readlink("/proc/self/ns/" + ns))(t); err != nil || theirs == ours {
				t.Errorf("the %s shares the %s namespace with the host (%v)", what, ns, err)
			}
		}
		for line := range strings.Lines(string(ok(os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pids[i])))(t))) {
			if f := strings.Fields(line); len(f) > 4 && !inMachine(f[4]) {
				t.Errorf("the %s sees %s", what, line)
			}
		}
		status := string(ok(os.ReadFile(fmt.Sprintf("/proc/%d/status", pids[i])))(t))
		if os.Geteuid() == 0 && strings.Contains(status, "\nUid:\t0\t") {
			t.Errorf("the %s is root on the host", what)
		}
		if filters := strings.Contains(status, "\nSeccomp:\t2"); i > 0 && !filters {
			t.Errorf("the %s filters no system calls", what)
		}
	}
	lines := strings.Split(string(ok(os.ReadFile(fmt.Sprintf("/proc/%d/net/dev", pids[0])))(t)), "\n")
	for _, line := range lines {
		name, _, found := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); found && name != "lo" && name != "cable" && name != "eth0" {
			t.Errorf("the machine's network namespace has an interface %s besides its card", name)
		}
	}
}

// inMachine tells whether a mount point is one of the machine's own root, as launcher or gVisor
// make it.
func inMachine(at string) bool {
	for _, known := range []string{"/bin/", "/dev/", "/image", "/machine", "/workspace", "/saved", "/proc", "/root", "/tmp", "/etc"} {
		if at == "/" || strings.HasPrefix(at, known) {
			return true
		}
	}
	return false
}

// The guest sees its own processes and its own kernel.
func TestGuestCannotSeeHost(t *testing.T) {
	h := realHarness(t)
	spec := inDir(t, h.Spec)
	m := ok(h.Driver.Boot(t.Context(), spec))(t)
	defer m.Kill()
	g := greet(t, m)
	mounts := ok(g.probe("root", "cat", "/proc/self/mountinfo"))(t)
	for _, word := range []string{spec.Dir, spec.Image, programsDir(t)} {
		if strings.Contains(mounts, word) {
			t.Errorf("the guest can read where %s is:\n%s", word, mounts)
		}
	}
	for _, path := range []string{spec.Dir, "/machine", "/image", "/proc/1/root/machine", "/dev/kvm", "/dev/mem", "/dev/vda"} {
		if out := ok(g.probe("root", "exists", path))(t); out != "no" {
			t.Errorf("the guest sees %s (%s)", path, out)
		}
	}
	own := fmt.Sprint(os.Getpid())
	if out := ok(g.probe("root", "exists", "/proc/"+own))(t); out != "no" && len(own) > 3 {
		t.Errorf("the guest sees process %s of the host", own)
	}
	if out := ok(g.probe("root", "exists", protocol.WorkspaceDir+"/.."+spec.Dir))(t); out != "no" {
		t.Errorf("the guest leaves its workspace: %s", out)
	}
}
