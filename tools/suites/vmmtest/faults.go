package vmmtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentbox/vmm"
)

// OpenTemplate makes and opens a template, for a Templater's own tests. It is closed when the test
// ends.
func OpenTemplate(t *testing.T, h Harness) vmm.Template {
	r := newRig(t, h)
	return r.open(r.makeTemplate())
}

// SaveMachine boots a machine without a workspace and returns the directory of its saved state, for
// the tests of a driver without templates.
func SaveMachine(t *testing.T, h Harness) string {
	r := newRig(t, h)
	m := r.owned(r.Driver.Boot(r.ctx, r.spec("saved-machine")))
	r.ok(r.connect(m).Close())
	r.ok(r.snap().Save(r.ctx, m, r.path("saved-state"), vmm.InPlace))
	r.ok(m.Kill())
	return r.path("saved-state")
}

// orphanVariable makes a test binary a process that starts a machine and waits to be killed. Its
// value is the arguments of TestOrphans, one a line.
const orphanVariable = "AGENTBOX_TEST_ORPHAN"

// Main is TestMain for tests that call TestOrphans. In the process that TestOrphans kills, setup
// returns the driver, the spec of the machine and the saved state that it is restored from ("" for a
// Templater, whose template is inherited), from the arguments of TestOrphans. That process prints
// the pids of its machine and sleeps until it is killed.
func Main(m *testing.M, setup func(args []string) (d vmm.Snapshotter, s vmm.Spec, saved string)) {
	args, orphan := os.LookupEnv(orphanVariable)
	if !orphan {
		os.Exit(m.Run())
	}
	fmt.Println(startOrphan(setup(strings.Split(args, "\n"))))
	// TestOrphans kills this process long before.
	time.Sleep(time.Hour)
}

// startOrphan restores a machine, a Templater's from the template on descriptors 3 to 6. It returns
// the machine's pids, or what went wrong, as text.
func startOrphan(driver vmm.Snapshotter, spec vmm.Spec, saved string) string {
	var tp vmm.Template
	if d, ok := driver.(vmm.Templater); ok {
		var files []*os.File
		for fd := uintptr(3); fd < 7; fd++ {
			files = append(files, os.NewFile(fd, "inherited"))
		}
		var err error
		if tp, err = d.InheritTemplate(files); err != nil {
			return err.Error()
		}
	}
	m, err := driver.Restore(context.Background(), spec, tp, saved)
	if err != nil {
		return err.Error()
	}
	return strings.Trim(fmt.Sprint(m.PIDs()), "[]")
}

// TestOrphans tests that no process of a machine outlives the process that started it. It runs this
// test binary again as that process, with the template's files if there is one (tp), and kills it
// with SIGKILL, which leaves it no time to clean up. A machine has at least so many processes. args
// reach Main's setup.
func TestOrphans(t *testing.T, tp vmm.Template, least int, args ...string) {
	parent := exec.Command("/proc/self/exe")
	parent.Env = append(os.Environ(), orphanVariable+"="+strings.Join(args, "\n"))
	if tp != nil {
		parent.ExtraFiles = tp.Files()
	}
	out, err := parent.StdoutPipe()
	if err == nil {
		err = parent.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		parent.Process.Kill()
		parent.Wait()
	}()
	line := make([]byte, 1024)
	// One line, written by one call; nothing at all means that the process has failed.
	n, _ := out.Read(line)
	var pids []int
	for field := range strings.FieldsSeq(string(line[:n])) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatalf("the other process said %q", line[:n])
		}
		pids = append(pids, pid)
	}
	if len(pids) < least {
		t.Errorf("a machine of %d processes", len(pids))
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	AwaitExit(t, pids)
}

// AwaitExit waits until no process of a list runs. A zombie has ended, though its parent may be
// slow to reap it.
func AwaitExit(t *testing.T, pids []int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		var left []int
		for _, pid := range pids {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err == nil && !strings.Contains(string(stat), ") Z ") && !strings.Contains(string(stat), ") X ") {
				left = append(left, pid)
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("processes %v are left", left)
		}
	}
}
