package yielding

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"agentbox/agentbox/resources"
	"agentbox/vmm/cgroup"
)

func TestStart(t *testing.T) {
	ours, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for level, want := range map[resources.Yield]struct {
		nice   int
		policy uint32
	}{resources.YieldNone: {int(ours.Nice), unix.SCHED_NORMAL}, resources.YieldMost: {max(10, int(ours.Nice)), unix.SCHED_NORMAL}, resources.YieldAll: {19, unix.SCHED_IDLE}} {
		id := "test-" + strconv.Itoa(os.Getpid())
		cmd := exec.Command("sh", "-c", "cat; :") // the cat is a child, which inherits
		cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := Start(cmd, level, id, 1<<30); err != nil {
			t.Fatal(err)
		}
		if _, err := in.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		child := onlyChild(t, cmd.Process.Pid)
		attr, err := unix.SchedGetAttr(child, 0)
		if err != nil || attr.Policy != want.policy || int(attr.Nice) != want.nice {
			t.Errorf("%d: %+v, %v", level, attr, err)
		}
		io, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, 1, uintptr(child), 0)
		if errno != 0 || level != resources.YieldNone && io != lowest {
			t.Errorf("%d: priority of I/O %x, %v", level, io, errno)
		}
		proc := filepath.Join("/proc", strconv.Itoa(child))
		if text, err := os.ReadFile(filepath.Join(proc, "autogroup")); err == nil && level != resources.YieldNone && !strings.HasSuffix(string(text), " nice "+strconv.Itoa(Nice(level))+"\n") {
			t.Errorf("%d: %s", level, text)
		}
		if group, _ := Means(); group && level != resources.YieldNone {
			if text, err := os.ReadFile(filepath.Join(proc, "cgroup")); err != nil || !strings.Contains(string(text), cgroup.Others+"/"+id+"/"+cgroup.Main) {
				t.Errorf("%d: it is in no group: %s, %v", level, text, err)
			}
		}
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		if err := Remove(id); err != nil {
			t.Error(err)
		}
	}
}

// TestStartLeavesUsAlone: nothing of this process runs on the thread that was lowered.
func TestStartLeavesUsAlone(t *testing.T) {
	if err := Start(exec.Command("true"), resources.YieldAll, "test", 1<<30); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			if attr, err := unix.SchedGetAttr(0, 0); err != nil || attr.Policy == unix.SCHED_IDLE {
				t.Errorf("%+v, %v", attr, err)
			}
		})
	}
	all.Wait()
}

// TestMakeGroup: where the kernel has the files, they say what the box may have.
func TestMakeGroup(t *testing.T) {
	base := t.TempDir()
	if err := os.MkdirAll(filepath.Join(base, cgroup.Others, "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cpu.weight", "cpu.idle", "io.weight", "b/memory.high"} {
		if err := os.WriteFile(filepath.Join(base, cgroup.Others, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	high := strconv.Itoa(1<<30 + spare)
	for level, want := range map[resources.Yield][]string{resources.YieldAll: {"1", "1", high}, resources.YieldMost: {"10", "0", high}} {
		dir, err := makeGroup(base, level, "b", 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		dir.Close()
		for i, name := range []string{"cpu.weight", "cpu.idle", "b/memory.high"} {
			if got, err := os.ReadFile(filepath.Join(base, cgroup.Others, name)); err != nil || string(got) != want[i] {
				t.Errorf("%d: %s: %s, %v", level, name, got, err)
			}
		}
	}
}

// TestSessions: a session below is niced, too, however deep.
func TestSessions(t *testing.T) {
	if _, err := os.Stat("/proc/self/autogroup"); err != nil {
		t.Skip("this kernel has no autogroups")
	}
	cmd := exec.Command("sh", "-c", "sh -c 'setsid cat; :'; :")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	shell := onlyChild(t, cmd.Process.Pid)
	if err := sessions(t.Context(), shell, 7); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(onlyChild(t, shell)), "autogroup"))
	if err != nil || !strings.HasSuffix(string(text), " nice 7\n") {
		t.Errorf("%s, %v", text, err)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func onlyChild(t *testing.T, pid int) int {
	all, err := procfs.AllProcs()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if s, err := p.Stat(); err == nil && s.PPID == pid {
			return p.PID
		}
	}
	t.Fatalf("process %d has no child", pid)
	return 0
}
