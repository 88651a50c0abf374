package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"

	"agentbox/agentbox"
)

// userNamespace is where an ordinary user is root, with the ids of /etc/subuid and a network of its
// own: runsc wants to be root. It is made and entered by what distributions have for it (unshare,
// nsenter, newuidmap), not by agentbox's own launcher, which is part of what is measured.
type userNamespace struct {
	holder *exec.Cmd
	input  io.Closer // the holder ends with it, and so when we are killed
}

// makeUserNamespace starts the process that keeps the namespace there. The caller closes it.
// Missing when a program that it takes is not installed.
func makeUserNamespace(ctx context.Context) (*userNamespace, error) {
	for _, program := range []string{"unshare", "nsenter", "newuidmap"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, agentbox.Errorf(agentbox.Missing, "%s is not installed: a user who is not root needs it for a bare runsc", program).
				WithHint("apt-get install uidmap util-linux")
		}
	}
	// An interrupt does not end it: the container in it has to be deleted first.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "unshare", "--user", "--map-root-user", "--map-auto", "--net", "--", "sh", "-c", "echo ready; exec cat")
	cmd.WaitDelay = killAfter
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

// enter is the command line that runs argv in there.
func (n *userNamespace) enter(argv []string) []string {
	return append([]string{"nsenter", "--target", strconv.Itoa(n.holder.Process.Pid), "--user", "--net", "--"}, argv...)
}

// close ends the holder, and the namespace when nothing else is in it.
func (n *userNamespace) close() error {
	return errors.Join(n.input.Close(), n.holder.Wait())
}
