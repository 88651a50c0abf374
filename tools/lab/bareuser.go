package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"

	"agentbox/agentbox"
	"agentbox/bench"
)

// userNamespace is a user namespace in which an ordinary user is root, because runsc wants to be
// root. It has the ids of /etc/subuid and a network of its own. The distribution's programs
// (unshare, nsenter, newuidmap) make and enter it, not agentbox's own launcher, which is part of
// what is measured.
type userNamespace struct {
	holder *exec.Cmd
	input  io.Closer // the holder ends when this is closed, and so also when we are killed
}

// makeUserNamespace starts the process that keeps the namespace alive. The caller closes it. The
// error is Missing when a program that it needs is not installed.
func makeUserNamespace(ctx context.Context) (*userNamespace, error) {
	for _, program := range []string{"unshare", "nsenter", "newuidmap"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, agentbox.Errorf(agentbox.Missing, "%s is not installed: a user who is not root needs it for a bare runsc", program).
				WithHint("apt-get install uidmap util-linux")
		}
	}
	// An interrupt must not end it: the container in it has to be deleted first.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "unshare", "--user", "--map-root-user", "--map-auto", "--net", "--", "sh", "-c", "echo ready; exec cat")
	cmd.WaitDelay = bench.KillAfter
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	n := &userNamespace{holder: cmd, input: input}
	if _, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		return nil, fmt.Errorf("make a user namespace for a bare runsc: %w", errors.Join(err, n.close()))
	}
	return n, nil
}

// enter returns the command line that runs argv in the namespace.
func (n *userNamespace) enter(argv []string) []string {
	return append([]string{"nsenter", "--target", strconv.Itoa(n.holder.Process.Pid), "--user", "--net", "--"}, argv...)
}

// close ends the holder. The namespace goes when nothing else is in it.
func (n *userNamespace) close() error {
	return errors.Join(n.input.Close(), n.holder.Wait())
}
