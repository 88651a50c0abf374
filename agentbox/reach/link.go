package reach

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
)

// link is the SSH connection to one host: a master of stock ssh, which all commands and forwarded
// sockets share. It ends by itself some minutes after its last use.
type link struct {
	here    Here
	dir     string
	control string // the master's socket
	socket  string // the socket of the daemon there, forwarded
}

func (h Here) linkTo(host Host) link {
	dir := h.home.Link(host.Name)
	return link{here: h, dir: dir, control: filepath.Join(dir, "c"), socket: filepath.Join(dir, "d")}
}

// ssh returns a command of stock ssh. The user's own configuration applies but for what would break
// the connection or reach further than it: agents are not forwarded, and without a terminal nothing is
// asked. A connection that is dead, perhaps because a machine slept, is noticed within a minute.
func (l link) ssh(ctx context.Context, host Host, args ...string) *exec.Cmd {
	options := []string{
		"-T", "-a", "-x", "-S", l.control, "-o", "ControlMaster=auto", "-o", "ControlPersist=10m", "-o", "StreamLocalBindUnlink=yes", "-o", "ExitOnForwardFailure=yes",
		"-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3", "-o", "ConnectTimeout=20", "-o", "RemoteCommand=none", "-o", "LogLevel=ERROR",
	}
	if name := host.lima(); name != "" {
		if config, err := l.here.limaConfig(name); err == nil {
			options = append(options, "-F", config)
		}
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) || !term.IsTerminal(int(os.Stderr.Fd())) {
		options = append(options, "-o", "BatchMode=yes")
	}
	return exec.CommandContext(ctx, "ssh", append(options, args...)...)
}

// run runs a command of a POSIX shell there and returns its output. Only one of several processes
// makes the connection.
func (l link) run(ctx context.Context, host Host, stdin io.Reader, command string, args ...string) ([]byte, error) {
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return nil, err
	}
	release, err := durable.Lock(ctx, filepath.Join(l.dir, "lock"), nil)
	if err != nil {
		return nil, err
	}
	defer release()
	inheritNoFiles()
	cmd := l.ssh(ctx, host, append(args, host.machine(), command)...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &errs
	cmd.WaitDelay = time.Second // the master goes on in the background
	err = cmd.Run()
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return nil, failure(ctx, host, errs.String(), err)
	}
	return out.Bytes(), nil
}

// open starts the daemon there if none runs, and forwards its socket.
func (l link) open(ctx context.Context, host Host) error {
	_, err := l.run(ctx, host, nil, quote(host.Program, "--json", "daemon", "start"), "-L", l.socket+":"+socketOf(host.Home))
	return err
}

// close ends the connection. If there is none, ssh fails, which is as good.
func (l link) close(ctx context.Context, host Host) {
	_ = l.ssh(ctx, host, "-O", "exit", host.machine()).Run()
}

// forward forwards a port of the loopback there to one here: the same, or another that is the same
// each time, so that it stays while the connection does.
func (l link) forward(ctx context.Context, host Host, port int) (here int, err error) {
	sum := fnv.New32a()
	fmt.Fprint(sum, host.Name, port)
	for i, free := 0, 20000+int(sum.Sum32()%20000); i < 8; i++ {
		if here = port; i > 0 {
			here = free + i
		}
		var out []byte
		out, err = l.ssh(ctx, host, "-O", "forward", "-L", fmt.Sprintf("127.0.0.1:%d:127.0.0.1:%d", here, port), host.machine()).CombinedOutput()
		if err == nil {
			return here, nil
		}
		err = agentbox.Errorf(agentbox.Unavailable, "port %d of %s cannot be forwarded: %s", port, host.Name, lastLine(string(out)))
	}
	return 0, err
}

// quote returns the words of a command for a shell.
func quote(words ...string) string {
	for i, w := range words {
		words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}

// sshFailed is the exit status of ssh if it failed itself, not the command.
const sshFailed = 255

// failure says why a command there failed, from what ssh or the command said.
func failure(ctx context.Context, host Host, said string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	status := new(exec.ExitError)
	last := lastLine(said)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return agentbox.Errorf(agentbox.Missing, "there is no ssh on this machine").WithHint("install it: apt-get install openssh-client")
	case strings.Contains(said, "IDENTIFICATION HAS CHANGED"):
		return agentbox.Errorf(agentbox.Unavailable, "the host key of %s (%s) has changed: this may be another machine", host.Name, host.Target).
			WithHint("%s says which line of known_hosts it was; remove that only if you know why it changed", host.try())
	case strings.Contains(said, "Host key verification failed"):
		return agentbox.Errorf(agentbox.Unavailable, "the host key of %s (%s) is not known here", host.Name, host.Target).WithHint("%s shows it and asks you once", host.try())
	case strings.Contains(said, "Permission denied") && errors.As(err, &status) && status.ExitCode() == sshFailed:
		return agentbox.Errorf(agentbox.Unavailable, "%s (%s) does not let you in: %s", host.Name, host.Target, last).WithHint("%s has to work without a question: see ssh-add", host.try())
	case strings.Contains(said, "No space left on device"):
		return agentbox.Errorf(agentbox.NoSpace, "the disk of %s is full: %s", host.Name, last).WithHint("make room there; nothing was changed")
	case errors.As(err, &status) && status.ExitCode() != sshFailed:
		return agentbox.Errorf(agentbox.Unavailable, "on %s: %s", host.Name, strings.TrimPrefix(last, "agentbox: ")).WithHint("agentbox --host %s daemon log", host.Name)
	}
	return agentbox.Errorf(agentbox.Unavailable, "%s (%s) cannot be reached: %s", host.Name, host.Target, last).WithHint("try %s; what runs there goes on", host.try())
}

// lastLine is the last line of a text that is no hint, for an error.
func lastLine(text string) string {
	lines := strings.Split(text, "\n")
	for _, line := range slices.Backward(lines) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "hint:") {
			return agentbox.Clip(agentbox.Printable(line))
		}
	}
	return "it said nothing"
}
