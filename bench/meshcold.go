package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/mesh/netlab"
)

// coldImage is the configuration of the repository that is entered. Its image has some 175 MiB.
const coldImage = "image: apt:bookworm\npackages: [busybox, git, inotify-tools, rsync]\n"

// coldCluster is two machines with daemons of their own: one has the image, the other one has
// nothing.
type coldCluster struct {
	l     *MeshLab
	links *netlab.Net
	repo  string
	got   int64 // before the first command of the last sample, bytes
}

// cold has a machine without anything join the team and enter a box whose image the other one has.
func (l *MeshLab) cold() []Scenario {
	o := &coldCluster{l: l}
	entered := l.scenario("mesh/cold-box", "", o.enter)
	entered.Isolation, entered.Setup, entered.Teardown = agentbox.GVisor, o.open, o.close
	came := Scenario{
		Name: "mesh/cold-box-bytes", Isolation: agentbox.GVisor, Unit: Bytes, Ceiling: 1 << 30,
		Measure: func(context.Context) (float64, error) {
			if o.got == 0 {
				return 0, agentbox.Errorf(agentbox.Invalid, "they are counted in mesh/cold-box: measure both")
			}
			return float64(o.got), nil
		},
	}
	return []Scenario{entered, came}
}

func (o *coldCluster) home(i int) string { return filepath.Join(o.l.dir, "h"+strconv.Itoa(i)) }

// command runs the program of a machine, in its namespace where it has one, in the repository.
func (o *coldCluster) command(ctx context.Context, i int, in bool, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, o.l.cfg.Binary, args...)
	if in {
		cmd = exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", o.links.Name(i), o.l.cfg.Binary}, args...)...)
	}
	var out, complaints bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = o.repo, &out, &complaints
	cmd.Env = append(os.Environ(), home.EnvDir+"="+o.home(i), "AGENTBOX_POOL=0", "AGENTBOX_ISOLATION="+string(agentbox.GVisor))
	if err := cmd.Run(); err != nil {
		return "", agentbox.Errorf(agentbox.Unavailable, "agentbox %s: %w: %.500s", strings.Join(args, " "), err, strings.TrimSpace(complaints.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

// open makes the image on the first machine, and the two of them a network.
func (o *coldCluster) open(ctx context.Context) (err error) {
	o.repo = filepath.Join(o.l.dir, "repository")
	if err := os.MkdirAll(o.repo, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(o.repo, "agentbox.yaml"), []byte(coldImage), 0o644); err != nil {
		return err
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."}, {"-c", "user.name=b", "-c", "user.email=b@localhost", "commit", "-q", "-m", "first"}} {
		if err := git(ctx, o.repo, args...); err != nil {
			return err
		}
	}
	// The packages come from outside, where the machines of the team have no way to.
	for _, args := range [][]string{{"up", "--detach", "-q"}, {"rm", "--force"}, {"daemon", "stop"}} {
		if _, err := o.command(ctx, 0, false, args...); err != nil {
			return err
		}
	}
	if o.links, err = newLinks(ctx, 2, linkGigabit); err != nil {
		return err
	}
	if _, err := o.command(ctx, 0, true, "mesh", "init", "--name", "seed", "--listen", o.links.Address(0).String()+":7946"); err != nil {
		return err
	}
	peers, err := o.peers(ctx, 0, func(p []api.MeshPeer) bool { return p[0].Records["image"] > 0 })
	if err != nil || len(peers) != 1 {
		return errors.Join(err, agentbox.Errorf(agentbox.Unavailable, "the image is not offered"))
	}
	out, err := o.command(ctx, 0, true, "image", "ls", "--json")
	if err != nil {
		return err
	}
	var images []api.Image
	if err := json.Unmarshal([]byte(out), &images); err != nil || len(images) != 1 {
		return errors.Join(err, agentbox.Errorf(agentbox.Internal, "%d images on the first machine", len(images)))
	}
	return nil
}

// peers asks a machine who is in the team, until that is what is waited for.
func (o *coldCluster) peers(ctx context.Context, i int, until func([]api.MeshPeer) bool) ([]api.MeshPeer, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		out, err := o.command(ctx, i, true, "mesh", "peers", "--json")
		if err != nil {
			return nil, err
		}
		var peers []api.MeshPeer
		if err := json.Unmarshal([]byte(out), &peers); err != nil {
			return nil, err
		}
		if len(peers) > 0 && until(peers) {
			return peers, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// enter is one sample: a machine with an empty home joins, which does not count, and its first
// command runs.
func (o *coldCluster) enter(ctx context.Context) (took time.Duration, err error) {
	o.got = 0
	defer func() { err = errors.Join(err, o.forget(ctx)) }()
	token, err := o.command(ctx, 0, true, "mesh", "invite", "-q")
	if err != nil {
		return 0, err
	}
	if _, err := o.command(ctx, 1, true, "mesh", "join", "--name", "cold", "--listen", o.links.Address(1).String()+":7946", token); err != nil {
		return 0, err
	}
	offered := func(p []api.MeshPeer) bool {
		for _, one := range p {
			if one.State == "here" && one.Records["image"] > 0 {
				return true
			}
		}
		return false
	}
	if _, err := o.peers(ctx, 1, offered); err != nil {
		return 0, err
	}
	start := time.Now()
	if _, err := o.command(ctx, 1, true, "up", "-q", "--", "true"); err != nil {
		return 0, err
	}
	took = time.Since(start)
	peers, err := o.peers(ctx, 1, func([]api.MeshPeer) bool { return true })
	for _, p := range peers {
		o.got += p.Received
	}
	return took, err
}

// forget ends the second machine, with all that it has.
func (o *coldCluster) forget(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), teardownTime)
	defer cancel()
	if _, err := os.Stat(o.home(1)); err != nil {
		return nil
	}
	_, rmErr := o.command(ctx, 1, true, "rm", "--force")
	_, leaveErr := o.command(ctx, 1, true, "mesh", "leave")
	_, stopErr := o.command(ctx, 1, true, "daemon", "stop")
	return errors.Join(rmErr, leaveErr, stopErr, os.RemoveAll(o.home(1)))
}

func (o *coldCluster) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), teardownTime)
	defer cancel()
	_, err := o.command(ctx, 0, o.links != nil, "daemon", "stop")
	if o.links != nil {
		err = errors.Join(err, o.links.Close(ctx))
	}
	return errors.Join(err, os.RemoveAll(o.home(0)))
}
