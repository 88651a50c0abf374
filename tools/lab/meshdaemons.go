package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/bench"
	"agentbox/tools/lab/netlab"
)

// teardownTime bounds the end of a machine, or of all.
const teardownTime = 2 * time.Minute

// coldImage is the configuration of the repository whose boxes are entered. The image has about 175
// MiB.
const coldImage = "image: apt:bookworm\npackages: [busybox, git, inotify-tools, rsync]\n"

// daemons are whole machines as a team has them: each has a home, a daemon and a network namespace
// of its own. They are driven by the commands that a person would type.
type daemons struct {
	l     *MeshLab
	name  string      // of the group of scenarios, so that homes differ
	links *netlab.Net // nil while there is no network: commands run outside of it
	repo  string
}

// home returns a machine's home. The name is short, because of the sockets in it.
func (o *daemons) home(i int) string { return filepath.Join(o.l.dir, o.name+strconv.Itoa(i)) }

// command runs the program of a machine in the repository and returns its standard output. With on,
// it runs in the machine's namespace. Otherwise it reaches what the host does, as fetching packages
// requires.
func (o *daemons) command(ctx context.Context, i int, on bool, args ...string) (string, error) {
	var out bytes.Buffer
	err := o.run(ctx, i, on, &out, args...)
	return strings.TrimSpace(out.String()), err
}

// output runs the program of a machine in its namespace, and writes its standard output to a file.
func (o *daemons) output(ctx context.Context, i int, file string, args ...string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(o.run(ctx, i, true, f, args...), f.Close())
}

func (o *daemons) run(ctx context.Context, i int, on bool, out io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, o.l.cfg.Binary, args...)
	if on {
		cmd = exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", o.links.Name(i), o.l.cfg.Binary}, args...)...)
	}
	var complaints bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = o.repo, out, &complaints
	cmd.Env = append(os.Environ(), home.EnvDir+"="+o.home(i), "AGENTBOX_POOL=0", "AGENTBOX_ISOLATION="+string(agentbox.GVisor))
	if err := cmd.Run(); err != nil {
		return agentbox.Errorf(agentbox.Unavailable, "agentbox %s: %w: %.500s", strings.Join(args, " "), err, strings.TrimSpace(complaints.String()))
	}
	return nil
}

// ask runs a command on the network and decodes its answer, which is JSON.
func (o *daemons) ask(ctx context.Context, i int, answer any, args ...string) error {
	out, err := o.command(ctx, i, true, args...)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(out), answer)
}

// makeImage has a machine make the image of the repository outside of the network, because the
// machines of the team cannot reach the packages.
func (o *daemons) makeImage(ctx context.Context, i int) error {
	for _, args := range [][]string{{"up", "--detach", "-q"}, {"rm", "--force"}, {"daemon", "stop"}} {
		if _, err := o.command(ctx, i, false, args...); err != nil {
			return err
		}
	}
	return nil
}

// repository makes the repository that all machines use.
func (o *daemons) repository(ctx context.Context) error {
	o.repo = filepath.Join(o.l.dir, o.name+"-repository")
	if err := os.MkdirAll(o.repo, 0o755); err != nil {
		return err
	}
	if err := o.configure(coldImage); err != nil {
		return err
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."}, {"-c", "user.name=b", "-c", "user.email=b@localhost", "commit", "-q", "-m", "first"}} {
		if err := bench.Git(ctx, o.repo, args...); err != nil {
			return err
		}
	}
	return nil
}

// configure writes the repository's configuration.
func (o *daemons) configure(text string) error {
	return os.WriteFile(filepath.Join(o.repo, "agentbox.yaml"), []byte(text), 0o644)
}

// initTeam makes the team on the first machine, whose name in it is seed.
func (o *daemons) initTeam(ctx context.Context) error {
	_, err := o.command(ctx, 0, true, "mesh", "init", "--name", "seed", "--listen", o.listen(0))
	return err
}

// join makes another machine a member, by an invitation of the first one, as a person would.
func (o *daemons) join(ctx context.Context, i int) error {
	token, err := o.command(ctx, 0, true, "mesh", "invite", "-q")
	if err != nil {
		return err
	}
	_, err = o.command(ctx, i, true, "mesh", "join", "--name", "machine-"+strconv.Itoa(i), "--listen", o.listen(i), token)
	return err
}

// listen returns the address of a machine's node. The port is always the same, as no two machines
// share a namespace.
func (o *daemons) listen(i int) string { return o.links.Address(i).String() + ":7946" }

// peers asks a machine for its team again and again until the answer satisfies until, for at most a
// minute.
func (o *daemons) peers(ctx context.Context, i int, until func([]api.MeshPeer) bool) ([]api.MeshPeer, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		var peers []api.MeshPeer
		if err := o.ask(ctx, i, &peers, "mesh", "peers", "--json"); err != nil {
			return nil, err
		}
		if len(peers) > 0 && until(peers) {
			return peers, nil
		}
		if err := bench.Sleep(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// daemon returns the process id of a machine's daemon. Without one it returns an error, never 0,
// which kill would take for the whole process group.
func (o *daemons) daemon(ctx context.Context, i int) (int, error) {
	var st api.DaemonStatus
	err := o.ask(ctx, i, &st, "daemon", "status", "--json")
	return st.PID, err
}

// kill ends a machine's daemon with SIGKILL, so that it cannot say goodbye to its peers.
func (o *daemons) kill(ctx context.Context, i int) error {
	pid, err := o.daemon(ctx, i)
	if err != nil {
		return err
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

// forget ends a machine, if there is one, and removes all that it has. It leaves the team properly,
// so that the others do not look for it.
func (o *daemons) forget(ctx context.Context, i int) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), teardownTime)
	defer cancel()
	if _, err := os.Stat(o.home(i)); err != nil {
		return nil
	}
	_, rmErr := o.command(ctx, i, true, "rm", "--force")
	_, leaveErr := o.command(ctx, i, true, "mesh", "leave")
	_, stopErr := o.command(ctx, i, true, "daemon", "stop")
	return errors.Join(rmErr, leaveErr, stopErr, os.RemoveAll(o.home(i)))
}

// close ends all machines and removes the network. It continues after failures, and has a time
// limit of its own, as ctx may have ended.
func (o *daemons) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), teardownTime)
	defer cancel()
	var errs []error
	for i := range meshMachines {
		if _, err := os.Stat(o.home(i)); err != nil {
			continue
		}
		// A machine goes on without its daemon, and without its home.
		boxes, err := o.command(ctx, i, o.links != nil, "ls", "-q")
		if boxes != "" {
			_, err = o.command(ctx, i, o.links != nil, append([]string{"rm", "--force"}, strings.Fields(boxes)...)...)
		}
		_, stopErr := o.command(ctx, i, o.links != nil, "daemon", "stop")
		errs = append(errs, err, stopErr, os.RemoveAll(o.home(i)))
	}
	if o.links != nil {
		errs = append(errs, o.links.Close(ctx))
	}
	o.links = nil
	return errors.Join(errs...)
}
