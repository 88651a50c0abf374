package qemu

import (
	"os"
	"os/exec"

	"agentbox/vmm/child"
	"agentbox/vmm/confine"
	"agentbox/vmm/console"
)

// process is a running QEMU that dies with this process, and the end of its standard error.
type process struct {
	*child.Process
	stderr console.Tail
}

// startProcess runs a program with files as descriptors from 3 on, which stay the caller's; a nil
// one leaves its number closed. The program can open only what reach names, or anything if reach is
// nil.
func startProcess(program string, argv []string, files []*os.File, reach *confine.Files) (*process, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0) // the confined thread could not
	if err != nil {
		return nil, err
	}
	defer null.Close()
	p, cmd := &process{}, exec.Command(program, argv...)
	cmd.ExtraFiles = files
	cmd.Stdin, cmd.Stdout, cmd.Stderr = null, null, &p.stderr
	cmd.Dir = "/"
	cmd.Env = []string{} // QEMU needs nothing of ours, and may be taken over by a guest
	p.Process, err = child.Start(cmd, func() error {
		if reach == nil {
			return nil
		}
		return confine.Thread(*reach)
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}
