package supervisor

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestYield(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Skip("no sleep here:", err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if err := yield([]int{cmd.Process.Pid}); err != nil {
		t.Fatal(err)
	}
	nice, err := unix.Getpriority(unix.PRIO_PROCESS, cmd.Process.Pid)
	if nice = 20 - nice; err != nil || nice != lowest { // Linux returns 20 less the value
		t.Errorf("its nice value is %d, %v", nice, err)
	}
	class, _, failed := unix.Syscall(unix.SYS_IOPRIO_GET, ioWhoThread, uintptr(cmd.Process.Pid), 0)
	if failed != 0 || class != ioIdleClass {
		t.Errorf("its class of I/O is %x, %v", class, failed)
	}
	if text, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/autogroup"); err == nil && len(text) > 0 && !strings.HasSuffix(strings.TrimSpace(string(text)), "nice 19") {
		t.Errorf("its session has %q", text)
	}
	own, _ := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if 20-own == lowest {
		t.Error("this process yields, too")
	}
	if err := yield([]int{1 << 22}); err != nil {
		t.Errorf("a process that has ended: %v", err)
	}
}
