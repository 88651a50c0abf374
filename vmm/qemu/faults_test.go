package qemu_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/tools/suites/vmmtest"
	"agentbox/vmm"
	"agentbox/vmm/qemu"
)

func inDir(t *testing.T, s vmm.Spec) vmm.Spec {
	s.Name, s.Dir = t.Name(), t.TempDir()
	return s
}

func TestFaults(t *testing.T) {
	h := realHarness(t)
	d, tp := h.Driver.(*qemu.Driver), vmmtest.OpenTemplate(t, h)
	t.Run("Flood", func(t *testing.T) { testFlood(t, h, d, tp) })
	t.Run("Orphans", func(t *testing.T) { testOrphans(t, h, tp) })
	t.Run("NoRoom", func(t *testing.T) { testNoRoom(t, h, d, tp) })
	t.Run("KillWhileRestoring", func(t *testing.T) { testKillWhileRestoring(t, h, d, tp) })
	t.Run("KillWhileSaving", func(t *testing.T) { testKillWhileSaving(t, h, d, tp) })
}

// testFlood never reads what the guest writes: nothing waits for it but the guest.
func testFlood(t *testing.T, h vmmtest.Harness, d *qemu.Driver, tp vmm.Template) {
	m, err := d.Restore(t.Context(), inDir(t, h.Spec), tp, "")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Kill()
	g, err := connect(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	files := g.(*agentGuest).Files
	for range 50 {
		go files.ReadDir("/proc") // each answer is some kilobytes
	}
	g.Close()
	for _, step := range []func(context.Context) error{m.Freeze, m.Thaw, m.Freeze, func(context.Context) error { return m.Kill() }} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		if err := step(ctx); err != nil {
			t.Error(err)
		}
		cancel()
	}
}

func TestMain(m *testing.M) {
	qemu.HostileProgram()
	vmmtest.Main(m, func(args []string) (vmm.Snapshotter, vmm.Spec, string) {
		return qemu.New(qemu.Config{StateDir: args[0], Accel: args[1]}),
			vmm.Spec{Name: "orphan", Dir: args[0], Image: args[2], Kernel: args[3], CPUs: 2, Memory: 512 << 20, Disk: 64 << 30}, ""
	})
}

func testOrphans(t *testing.T, h vmmtest.Harness, tp vmm.Template) {
	facts, err := h.Driver.Probe(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	vmmtest.TestOrphans(t, tp, 1, t.TempDir(), facts.Accel, h.Spec.Image, h.Spec.Kernel)
}

func testNoRoom(t *testing.T, h vmmtest.Harness, d *qemu.Driver, tp vmm.Template) {
	small := t.TempDir()
	if err := syscall.Mount("small", small, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("only root can make a small file system: %v", err)
	}
	defer syscall.Unmount(small, 0)
	m, err := d.Restore(t.Context(), inDir(t, h.Spec), tp, "")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Kill()
	if _, err := connect(t.Context(), m); err != nil { // which makes it differ from its template
		t.Fatal(err)
	}
	if err := d.Save(t.Context(), m, filepath.Join(small, "saved"), vmm.WithDisks); agentbox.CodeOf(err) != agentbox.NoSpace {
		t.Errorf("save: %v", err)
	}
	left, err := os.ReadDir(small)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := m.Thaw(t.Context()); err != nil {
		t.Errorf("the machine did not survive: %v", err)
	}
	tree := t.TempDir()
	if err := os.WriteFile(filepath.Join(tree, "big"), []byte(strings.Repeat("x", 3<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.NewWorkspace(t.Context(), filepath.Join(small, "w"), tree, 64<<30); agentbox.CodeOf(err) != agentbox.NoSpace {
		t.Errorf("new workspace: %v", err)
	}
}

func testKillWhileSaving(t *testing.T, h vmmtest.Harness, d *qemu.Driver, tp vmm.Template) {
	for i := range 5 {
		m, err := d.Restore(t.Context(), inDir(t, h.Spec), tp, "")
		if err != nil {
			t.Fatal(err)
		}
		parent := t.TempDir()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			time.Sleep(time.Duration(i) * 5 * time.Millisecond)
			syscall.Kill(m.PIDs()[0], syscall.SIGKILL)
		}()
		err = d.Save(t.Context(), m, filepath.Join(parent, "saved"), vmm.WithDisks)
		<-ended
		<-m.Done()
		if left, _ := os.ReadDir(parent); err != nil && len(left) != 0 {
			t.Errorf("a save that failed (%v) left %v", err, left)
		}
	}
}

// testKillWhileRestoring kills QEMU at a different moment each time, the first as soon as it is
// there.
func testKillWhileRestoring(t *testing.T, h vmmtest.Harness, d *qemu.Driver, tp vmm.Template) {
	spec := inDir(t, h.Spec)
	m, err := d.Restore(t.Context(), spec, tp, "")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Kill()
	if _, err := connect(t.Context(), m); err != nil { // which makes it differ from its template
		t.Fatal(err)
	}
	saved := filepath.Join(t.TempDir(), "saved")
	if err := d.Save(t.Context(), m, saved, vmm.InPlace); err != nil {
		t.Fatal(err)
	}
	if err := m.Kill(); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		spec.Name = fmt.Sprintf("killed-%d-%d", os.Getpid(), i)
		ctx, cancel := context.WithCancel(t.Context())
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			pid := awaitProcess(ctx, "guest="+spec.Name+",")
			time.Sleep(time.Duration(i) * 3 * time.Millisecond)
			if pid != 0 {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}()
		m, err := d.Restore(t.Context(), spec, tp, saved)
		if err == nil { // it came too late
			<-killed
			<-m.Done()
			err = m.Err()
		}
		cancel()
		<-killed
		if err == nil || !strings.Contains(err.Error(), "signal: killed") || agentbox.CodeOf(err) != agentbox.Unavailable {
			t.Errorf("killed after %d ms: %v", 3*i, err)
		}
	}
}

// awaitProcess finds the process with this in its command line; 0 when ctx ends first.
func awaitProcess(ctx context.Context, argument string) int {
	for ctx.Err() == nil {
		found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, path := range found {
			line, err := os.ReadFile(path) // an error means that the process has ended
			if err != nil || !strings.Contains(string(line), argument) {
				continue
			}
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
				return pid
			}
		}
	}
	return 0
}
