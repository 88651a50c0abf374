package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/bench"
)

// contextCluster is two machines of a team: an agent works in a box on the first, in a repository of
// 200 MB with 2,000 commits, and somebody on the other one enters that.
type contextCluster struct {
	daemons
	member bool // the second machine is in the team
	count  int  // samples, each of which changes something in the box
}

// What the repository has, and what is changed in the box.
const (
	contextFiles, contextFile = 200, 1 << 20
	contextCommits            = 2000
	contextChange             = `for i in $(seq 20); do echo "$1 $i" >>data/file$i; done; head -c 5000000 /dev/urandom >untracked`
)

// contextVerb is `lab context`.
func contextVerb(out io.Writer) *cli.Command {
	peers := ""
	cmd := verb("context", "measure entering what an agent works on, here and from another machine",
		"Two daemons in network namespaces, joined by a link of 1 Gbit/s; a repository of 200 MB with 2,000 commits, and 20 changed files and 5 MB\n"+
			"untracked in the box. Whole commands, to the end of the first one in the box. Needs root. Let nothing else run meanwhile.", 10, out, func(ctx context.Context, r *bench.Run) error { return measureContext(ctx, r, peers) })
	cmd.Flags = append(cmd.Flags, &cli.StringFlag{Name: "peers", Usage: "also measure what a person does by hand, with podman, git and the registry in `DIRECTORY` (make bench-peers fills build/peers)", Destination: &peers})
	return cmd
}

// measureContext measures whole commands in a lab like that of the mesh.
func measureContext(ctx context.Context, r *bench.Run, peers string) error {
	if err := r.Home.Create(); err != nil {
		return err
	}
	lab, err := OpenMeshLab(MeshConfig{Dir: r.Home.Dir, Binary: r.Binary, Progress: r.Progress})
	if err != nil {
		return err
	}
	o := &contextCluster{daemons: daemons{l: lab, name: "ctx"}}
	hand := &byHand{o: o, registry: filepath.Join(peers, "registry")}
	all := o.scenarios()
	if peers != "" {
		s, err := hand.scenario(lab)
		if err != nil {
			return errors.Join(err, lab.Close())
		}
		all = append(all, sharing(o.open, nil, s)...)
	}
	return errors.Join(r.Measure(ctx, all), hand.close(), o.close(ctx), lab.Close())
}

// scenarios have one cluster, which the caller closes. Their ceilings are those of the mesh.
func (o *contextCluster) scenarios() []bench.Scenario {
	l := o.l
	all := sharing(o.open, nil,
		l.scenario("context/attach", "", o.attach), l.scenario("context/resume", "", o.resume),
		l.scenario("context/snapshot-same", "", o.snapshot), l.scenario("context/snapshot-20-files", "", o.snapshotChanged),
		l.scenario("context/pull-warm", "", o.pullWarm), l.scenario("context/pull-warm-rm", "", o.pullAndLeave), l.scenario("context/push", "", o.push),
		l.scenario("context/live", "", o.live), l.scenario("context/pull-cold", "", o.pullCold))
	return bench.InBoxes(agentbox.Box{Isolation: agentbox.GVisor}, 0, all...)
}

// contextBox is the name of the agent's box.
const contextBox = "agents"

// open makes the image, the team, and the agent's box, which everybody may enter.
func (o *contextCluster) open(ctx context.Context) (err error) {
	if o.links != nil {
		return nil
	}
	if err := o.repository(ctx); err != nil {
		return err
	}
	if err := o.fill(ctx); err != nil {
		return err
	}
	if err := o.makeImage(ctx, 0); err != nil {
		return err
	}
	// An index that is as young as its files says nothing of them. Any git status since mends that.
	if err := bench.Git(ctx, o.repo, "status", "--porcelain"); err != nil {
		return err
	}
	if o.links, err = newLinks(ctx, 2, linkGigabit); err != nil {
		return err
	}
	if err := o.initTeam(ctx); err != nil {
		return err
	}
	for _, args := range [][]string{{"up", "--detach", "-q", "--name", contextBox}, {"task", "share", "--push", "--project"}} {
		if _, err := o.command(ctx, 0, true, args...); err != nil {
			return err
		}
	}
	return o.change(ctx)
}

// fill adds files and commits to the repository, by git fast-import.
func (o *contextCluster) fill(ctx context.Context) error {
	if err := bench.Git(ctx, o.repo, "remote", "add", "origin", "https://example.com/bench/context.git"); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "git", "-C", o.repo, "fast-import", "--quiet")
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	writeHistory(in)
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		return err
	}
	return bench.Git(ctx, o.repo, "reset", "-q", "--hard", "main")
}

// writeHistory writes commits for git fast-import: all files in the first one, and then changes of a
// small one. An error of the pipe is that of git.
func writeHistory(to io.Writer) {
	w := bufio.NewWriter(to)
	random := rand.NewChaCha8([32]byte{1})
	commit := func(n int) {
		fmt.Fprintf(w, "commit refs/heads/main\ncommitter b <b@localhost> %d +0000\ndata 1\nc\n", 1_700_000_000+n)
		if n == 0 {
			fmt.Fprint(w, "from refs/heads/main^0\n")
		}
	}
	commit(0)
	data := make([]byte, contextFile)
	for i := range contextFiles {
		_, _ = random.Read(data)
		fmt.Fprintf(w, "M 100644 inline data/file%d\ndata %d\n%s\n", i, len(data), data)
	}
	for n := 1; n < contextCommits; n++ {
		commit(n)
		fmt.Fprintf(w, "M 100644 inline src/file%d\ndata %d\n%0100d\n", n%50, 100, n)
	}
	_ = w.Flush()
}

// change does the agent's work, another one each time.
func (o *contextCluster) change(ctx context.Context) error {
	o.count++
	_, err := o.command(ctx, 0, true, "exec", contextBox, "--", "sh", "-c", contextChange, "sh", fmt.Sprint(o.count))
	return err
}

// timed runs a command on a machine, in an empty directory.
func (o *contextCluster) timed(ctx context.Context, i int, args ...string) (time.Duration, error) {
	at := *o
	at.repo = filepath.Join(o.l.dir, "empty")
	if err := os.MkdirAll(at.repo, 0o755); err != nil {
		return 0, err
	}
	start := time.Now()
	_, err := at.command(ctx, i, true, args...)
	return time.Since(start), err
}

func (o *contextCluster) attach(ctx context.Context) (time.Duration, error) {
	return o.timed(ctx, 0, "enter", contextBox, "--", "true")
}

func (o *contextCluster) resume(ctx context.Context) (time.Duration, error) {
	if _, err := o.command(ctx, 0, true, "pause", contextBox); err != nil {
		return 0, err
	}
	return o.attach(ctx)
}

func (o *contextCluster) snapshot(ctx context.Context) (time.Duration, error) {
	return o.timed(ctx, 0, "snapshot", "create", contextBox)
}

func (o *contextCluster) snapshotChanged(ctx context.Context) (time.Duration, error) {
	if err := o.change(ctx); err != nil {
		return 0, err
	}
	return o.snapshot(ctx)
}

// joined makes the second machine a member that sees the box.
func (o *contextCluster) joined(ctx context.Context) error {
	if o.member {
		return nil
	}
	if err := o.daemons.join(ctx, 1); err != nil {
		return err
	}
	o.member = true
	for {
		all, err := o.command(ctx, 1, true, "ls", "--team", "-q")
		if err != nil || all != "" {
			return err
		}
		if err := bench.Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// pull enters the box from the second machine, and leaves nothing of the box that this makes.
func (o *contextCluster) pull(ctx context.Context) (took time.Duration, err error) {
	if took, err = o.timed(ctx, 1, "enter", "seed/"+contextBox, "--", "true"); err != nil {
		return 0, err
	}
	box, err := o.command(ctx, 1, true, "ls", "-q")
	if err == nil {
		_, err = o.command(ctx, 1, true, "rm", "--force", box)
	}
	return took, err
}

// pullWarm is a second entering, of other work.
func (o *contextCluster) pullWarm(ctx context.Context) (time.Duration, error) {
	if err := errors.Join(o.warm(ctx), o.change(ctx)); err != nil {
		return 0, err
	}
	return o.pull(ctx)
}

// pullAndLeave is pullWarm with what follows the command: a look for new work, and the end of the box.
func (o *contextCluster) pullAndLeave(ctx context.Context) (time.Duration, error) {
	if err := errors.Join(o.warm(ctx), o.change(ctx)); err != nil {
		return 0, err
	}
	return o.timed(ctx, 1, "enter", "--rm", "seed/"+contextBox, "--", "true")
}

// warm has the second machine enter once, unless it has.
func (o *contextCluster) warm(ctx context.Context) error {
	if o.member {
		return nil
	}
	if err := o.joined(ctx); err != nil {
		return err
	}
	_, err := o.pull(ctx)
	return err
}

// push hands work back that was done on the second machine, until the agent's box goes on from it.
func (o *contextCluster) push(ctx context.Context) (took time.Duration, err error) {
	if err := o.warm(ctx); err != nil {
		return 0, err
	}
	if _, err := o.timed(ctx, 1, "enter", "seed/"+contextBox, "--", "true"); err != nil {
		return 0, err
	}
	box, err := o.command(ctx, 1, true, "ls", "-q")
	if err != nil {
		return 0, err
	}
	defer func() {
		_, rmErr := o.command(ctx, 1, true, "rm", "--force", box)
		err = errors.Join(err, rmErr)
	}()
	o.count++
	if _, err := o.command(ctx, 1, true, "exec", box, "--", "sh", "-c", contextChange, "sh", fmt.Sprint(o.count)); err != nil {
		return 0, err
	}
	var out api.PushedContext
	start := time.Now()
	err = o.ask(ctx, 1, &out, "push", "--json", box)
	if took = time.Since(start); err == nil && out.Ref != "" {
		err = agentbox.Errorf(agentbox.Internal, "the agent's box did not take the work: %s", out.Why)
	}
	return took, err
}

// contextMemory touches 100 MB of the box's memory, which no compression makes less, and leaves a process.
const contextMemory = `head -c 100000000 /dev/urandom >/dev/shm/touched; setsid -f sleep 1000000`

// live moves the box with what runs in it, until a command there has seen that. The first machine then
// begins afresh.
func (o *contextCluster) live(ctx context.Context) (took time.Duration, err error) {
	if err := o.warm(ctx); err != nil {
		return 0, err
	}
	if _, err := o.command(ctx, 0, true, "exec", contextBox, "--", "sh", "-c", contextMemory); err != nil {
		return 0, err
	}
	if took, err = o.timed(ctx, 1, "enter", "--live", "seed/"+contextBox, "--", "sh", "-c", "test -s /dev/shm/touched"); err != nil {
		return 0, err
	}
	box, err := o.command(ctx, 1, true, "ls", "-q")
	if err != nil {
		return 0, err
	}
	_, rmErr := o.command(ctx, 1, true, "rm", "--force", box)
	_, resetErr := o.command(ctx, 0, true, "reset", contextBox)
	return took, errors.Join(rmErr, resetErr)
}

// leave ends the second machine, which has no box, and removes all that it has.
func (o *contextCluster) leave(ctx context.Context) error {
	if !o.member {
		return nil
	}
	o.member = false
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), teardownTime)
	defer cancel()
	_, leaveErr := o.command(ctx, 1, true, "mesh", "leave")
	_, stopErr := o.command(ctx, 1, true, "daemon", "stop")
	return errors.Join(leaveErr, stopErr, os.RemoveAll(o.home(1)))
}

// pullCold is the first entering of a machine that has nothing.
func (o *contextCluster) pullCold(ctx context.Context) (took time.Duration, err error) {
	defer func() { err = errors.Join(err, o.leave(ctx)) }()
	if err := o.leave(ctx); err != nil {
		return 0, err
	}
	if err := o.joined(ctx); err != nil {
		return 0, err
	}
	return o.pull(ctx)
}
