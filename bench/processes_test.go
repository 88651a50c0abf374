package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/procfs"
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

// A finder reads what a process is only until it has settled, and forgets the ones that ended.
func TestFinder(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	// The program is ours by its name; what it starts mentions nothing.
	program := filepath.Join(dir, "runsc-test")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nenv -i sleep 60 & echo $!; wait\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	}()
	var child int
	if _, err := fmt.Fscan(out, &child); err != nil {
		t.Fatal(err)
	}
	f := &finder{proc: proc, text: dir}
	for range settled + 1 {
		if got := f.find(); !slices.Contains(got, cmd.Process.Pid) || !slices.Contains(got, child) {
			t.Fatalf("found %v, want %d and %d", got, cmd.Process.Pid, child)
		}
	}
	if k := f.known[cmd.Process.Pid]; k.looks != settled || !k.ours {
		t.Errorf("%+v", k)
	}
	f.known[-1] = knownProcess{looks: settled, ours: true}
	if f.find(); f.known[-1].ours {
		t.Error("it remembers a process that is not there")
	}
}

// BenchmarkFinder is one look at a machine where nothing has begun since the last.
func BenchmarkFinder(b *testing.B) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		b.Skip(err)
	}
	f := &finder{proc: proc, text: b.TempDir()}
	for b.Loop() {
		f.find()
	}
}

// BenchmarkReading is one look at the machine, ten of which are taken each second.
func BenchmarkReading(b *testing.B) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		b.Skip(err)
	}
	for b.Loop() {
		read(proc, []int{os.Getpid(), os.Getppid()})
	}
}
