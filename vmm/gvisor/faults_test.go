package gvisor_test

import (
	"context"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/tools/suites/vmmtest"
	"agentbox/vmm"
	"agentbox/vmm/guest"
	"agentbox/vmm/gvisor"
	"agentbox/vmm/gvisor/runsc"
)

func TestFaults(t *testing.T) {
	h := realHarness(t)
	d, saved := h.Driver.(*gvisor.Driver), vmmtest.SaveMachine(t, h)
	t.Run("Orphans", func(t *testing.T) { testOrphans(t, h, saved) })
	t.Run("KillEach", func(t *testing.T) { testKillEach(t, h, d, saved) })
	t.Run("NoRoom", func(t *testing.T) { testNoRoom(t, h, d, saved) })
	t.Run("KillWhileSaving", func(t *testing.T) { testKillWhileSaving(t, h, d, saved) })
	t.Run("Cancelled", func(t *testing.T) { testCancelled(t, h, d, saved) })
	t.Run("OtherVersion", func(t *testing.T) { testOtherVersion(t, h, saved) })
}

func TestMain(m *testing.M) {
	vmmtest.Main(m, func(args []string) (vmm.Snapshotter, vmm.Spec, string) {
		return gvisor.New(gvisor.Config{StateDir: args[0], Agent: embeddedAgent}),
			vmm.Spec{Name: "orphan", Dir: args[1], Image: args[2], CPUs: 2, Memory: 512 << 20, Disk: 64 << 30}, args[3]
	})
}

func testOrphans(t *testing.T, h vmmtest.Harness, saved string) {
	vmmtest.TestOrphans(t, nil, 3, programsDir(t), t.TempDir(), h.Spec.Image, saved)
}

// testKillEach kills the launcher, the sandbox and its file server in turn. (A process in which
// gVisor runs guest code is for gVisor to mind: it ends a guest process or the sandbox.)
func testKillEach(t *testing.T, h vmmtest.Harness, d *gvisor.Driver, saved string) {
	for i := range 3 {
		m := ok(d.Restore(t.Context(), inDir(t, h.Spec), nil, saved))(t)
		defer m.Kill()
		pids := m.PIDs()
		must(t, syscall.Kill(pids[i], syscall.SIGKILL))
		select {
		case <-m.Done():
		case <-time.After(5 * time.Minute):
			t.Fatalf("process %d of %v was killed, and the machine goes on", i, pids)
		}
		if m.Err() == nil {
			t.Errorf("process %d of %v was killed, and the machine has no Err", i, pids)
		}
		vmmtest.AwaitExit(t, pids)
	}
}

func testNoRoom(t *testing.T, h vmmtest.Harness, d *gvisor.Driver, saved string) {
	small := t.TempDir()
	if err := syscall.Mount("small", small, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("only root can make a small file system: %v", err)
	}
	defer syscall.Unmount(small, 0)
	m := ok(d.Restore(t.Context(), inDir(t, h.Spec), nil, saved))(t)
	defer m.Kill()
	must(t, greet(t, m).Close())
	if err := d.Save(t.Context(), m, filepath.Join(small, "saved"), vmm.WithDisks); agentbox.CodeOf(err) != agentbox.NoSpace {
		t.Errorf("save: %v", err)
	}
	if left := ok(os.ReadDir(small))(t); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := m.Thaw(t.Context()); err != nil {
		t.Errorf("the machine did not survive: %v", err)
	}
	if _, err := connect(t.Context(), m); err != nil {
		t.Errorf("the machine does not answer after a save that failed: %v", err)
	}
	tree := t.TempDir()
	must(t, os.WriteFile(filepath.Join(tree, "big"), []byte(strings.Repeat("x", 3<<20)), 0o600))
	if err := d.NewWorkspace(t.Context(), filepath.Join(small, "w"), tree, 64<<30); agentbox.CodeOf(err) != agentbox.NoSpace {
		t.Errorf("new workspace: %v", err)
	}
}

func testKillWhileSaving(t *testing.T, h vmmtest.Harness, d *gvisor.Driver, saved string) {
	for i := range 4 {
		m := ok(d.Restore(t.Context(), inDir(t, h.Spec), nil, saved))(t)
		pids := m.PIDs()
		parent := t.TempDir()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			time.Sleep(time.Duration(i) * 10 * time.Millisecond)
			syscall.Kill(pids[i%2], syscall.SIGKILL)
		}()
		err := d.Save(t.Context(), m, filepath.Join(parent, "saved"), vmm.WithDisks)
		<-ended
		must(t, m.Kill())
		if left := ok(os.ReadDir(parent))(t); err != nil && len(left) != 0 {
			t.Errorf("a save that failed (%v) left %v", err, left)
		}
		vmmtest.AwaitExit(t, pids)
	}
}

// testCancelled gives up starting at any moment.
func testCancelled(t *testing.T, h vmmtest.Harness, d *gvisor.Driver, saved string) {
	for i := range 8 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*15*time.Millisecond)
		m, err := d.Restore(ctx, inDir(t, h.Spec), nil, saved)
		if err == nil {
			must(t, m.Kill())
		}
		cancel()
		ctx, cancel = context.WithTimeout(t.Context(), time.Duration(i)*15*time.Millisecond)
		if m, err = d.Boot(ctx, inDir(t, h.Spec)); err == nil {
			must(t, m.Kill())
		}
		cancel()
	}
	if mine := descendants(t); len(mine) > 0 {
		t.Errorf("processes %v are left", mine)
	}
}

// descendants are this process's children that are launchers.
func descendants(t *testing.T) []string {
	var found []string
	lists := ok(filepath.Glob("/proc/self/task/*/children"))(t)
	for _, list := range lists {
		text, _ := os.ReadFile(list) // a thread that is gone has none
		for pid := range strings.FieldsSeq(string(text)) {
			if exe, err := os.Readlink("/proc/" + pid + "/exe"); err == nil && strings.HasSuffix(exe, "/launch") {
				found = append(found, pid)
			}
		}
	}
	return found
}

func testOtherVersion(t *testing.T, h vmmtest.Harness, saved string) {
	agent := append(ok(guest.Agent())(t), 0)
	other := gvisor.New(gvisor.Config{StateDir: t.TempDir(), Agent: runsc.Agent{
		Digest: func() (agentbox.Digest, error) { return agentbox.Digest(sha256.Sum256(agent)), nil },
		Bytes:  func() ([]byte, error) { return agent, nil },
	}})
	m, err := other.Restore(t.Context(), inDir(t, h.Spec), nil, saved)
	if err == nil {
		m.Kill()
	}
	if agentbox.CodeOf(err) != agentbox.Conflict || !strings.Contains(err.Error(), "does not fit") {
		t.Errorf("a state saved with another agent: %v", err)
	}
}
