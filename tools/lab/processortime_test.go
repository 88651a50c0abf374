package main

import (
	"os/exec"
	"runtime"
	"testing"
)

// The processor time of a process counts, and so does that of its children.
func TestProcessorTimeOf(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	marker := t.TempDir()
	cmd := exec.Command("sh", "-c", "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo; read x'; true", marker)
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
	defer func() {
		in.Close()
		cmd.Wait()
	}()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if took, err := processorTimeOf(marker); err != nil || took <= 0 {
		t.Errorf("it took %s (%v)", took, err)
	}
	if took, err := processorTimeOf(marker + "-nobody"); err != nil || took != 0 {
		t.Errorf("nobody took %s (%v)", took, err)
	}
}
