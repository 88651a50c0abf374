package bench

import (
	"os/exec"
	"runtime"
	"testing"
	"time"
)

func TestProcessesOf(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	dir := t.TempDir()
	cmd := exec.Command("sleep", "60")
	cmd.Env = []string{"AGENTBOX_HOME=" + dir + "/plain"}
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	// Start returns while the new program is still being loaded, when its environment is not
	// readable yet.
	found, err := processesOf(dir + "/")
	for range 100 {
		if len(found) > 0 || err != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
		found, err = processesOf(dir + "/")
	}
	if err != nil || len(found) != 1 || found[0].pid != cmd.Process.Pid || found[0].name != "sleep" {
		t.Fatalf("got %+v, %v; want process %d", found, err, cmd.Process.Pid)
	}
	if found[0].pss <= 0 {
		t.Error("its memory is unknown")
	}
	if left := excludeUnrelated(found); len(left) != 0 {
		t.Errorf("%s would be killed, which is none of ours", formatProcesses(left))
	}
	found, err = processesOf(dir + "/nobody")
	if err != nil || len(found) != 0 {
		t.Errorf("found %+v, %v", found, err)
	}
}

// The daemon and supervisors are programs of their own, whose names the kernel cuts off.
func TestOurProgramsAreRelated(t *testing.T) {
	all := []process{{name: "agentbox"}, {name: "agentbox-daemon"}, {name: "agentbox-superv"}, {name: "qemu-system-x86"}, {name: "runsc-sandbox"}, {name: "sh"}}
	if left := excludeUnrelated(all); len(left) != 5 {
		t.Errorf("%s", formatProcesses(left))
	}
}
