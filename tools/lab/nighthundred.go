package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/bench"
)

// What is run: on four machines beside the one that submits, which have two places each, it takes 25 s if
// nothing costs any time.
const (
	hundredTasks  = 100
	hundredPeers  = 4
	hundredPlaces = 2
	hundredWork   = "sleep 2"
	hundredLimit  = 5 * time.Minute
)

// hundred is a team whose first machine submits.
type hundred struct {
	daemons
	servers []*exec.Cmd // of ssh
}

func newHundred(l *MeshLab) *hundred { return &hundred{daemons: daemons{l: l, name: "hundred"}} }

func (o *hundred) scenarios() []bench.Scenario {
	ceiling := bench.InMilliseconds(hundredLimit)
	all := sharing(o.open, nil,
		bench.Scenario{Name: "peer/parallel-hundred", Unit: bench.Milliseconds, Ceiling: ceiling, Measure: o.parallel},
		bench.Scenario{Name: "night/hundred", Baseline: "peer/parallel-hundred", Unit: bench.Milliseconds, Ceiling: ceiling, Measure: o.tasks})
	return all
}

// open makes the team, once; each machine has run as many tasks as it has places, so that it has the image
// and a template.
func (o *hundred) open(ctx context.Context) (err error) {
	if o.links != nil {
		return nil
	}
	if err := o.repository(ctx); err != nil {
		return err
	}
	if err := o.makeImage(ctx, 0); err != nil {
		return err
	}
	if o.links, err = newLinks(ctx, 1+hundredPeers, linkGigabit); err != nil {
		return err
	}
	if err := o.initTeam(ctx); err != nil {
		return err
	}
	for i := 1; i <= hundredPeers; i++ {
		if err := o.join(ctx, i); err != nil {
			return err
		}
		if _, err := o.command(ctx, i, true, "idle", "allow", "--always", "--tasks", strconv.Itoa(hundredPlaces)); err != nil {
			return err
		}
	}
	for i := 1; i <= hundredPeers; i++ {
		if _, err := o.run(ctx, "machine-"+strconv.Itoa(i), hundredPlaces); err != nil {
			return err
		}
	}
	return o.serve(ctx)
}

// tasks measures all of them, from the start of the command line until the last one's result is here.
func (o *hundred) tasks(ctx context.Context) (float64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, hundredLimit, fmt.Errorf("the limit is %s", hundredLimit))
	defer cancel()
	took, err := o.run(ctx, "idle", hundredTasks)
	return bench.InMilliseconds(took), err
}

func (o *hundred) run(ctx context.Context, where string, n int) (took time.Duration, err error) {
	each := filepath.Join(o.l.dir, "each")
	if err := os.WriteFile(each, []byte(strings.Repeat("x\n", n)), 0o600); err != nil {
		return 0, err
	}
	begun := time.Now()
	out, err := o.command(ctx, 0, true, "task", "submit", "-q", "--wait", "--where", where, "--each", each, "--cpus", "1", "--", "sh", "-c", hundredWork)
	took = time.Since(begun)
	if err != nil {
		return 0, err
	}
	ids := strings.Fields(out)
	var all []agentbox.Task
	if err := o.ask(ctx, 0, &all, "task", "ls", "--json"); err != nil {
		return 0, err
	}
	for _, t := range all {
		if slices.Contains(ids, t.ID.String()) && t.State != agentbox.TaskSucceeded {
			return 0, agentbox.Errorf(agentbox.Internal, "task %s is %s: %+v", t.ID, t.State, t.Last().Result)
		}
	}
	_, err = o.command(ctx, 0, true, append([]string{"task", "rm", "-q"}, ids...)...)
	return took, err
}

// serve has each machine serve ssh, to this lab's own key.
func (o *hundred) serve(ctx context.Context) error {
	key := filepath.Join(o.l.dir, "key")
	if out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		return fmt.Errorf("ssh-keygen: %w: %s", err, out)
	}
	server, err := exec.LookPath("/usr/sbin/sshd")
	if err != nil {
		return agentbox.Errorf(agentbox.Missing, "%w", err).WithHint("apt-get install openssh-server parallel")
	}
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // of its privilege separation
		return err
	}
	config := filepath.Join(o.l.dir, "sshd_config")
	text := "HostKey " + key + "\nAuthorizedKeysFile " + key + ".pub\nStrictModes no\nUsePAM no\nMaxStartups 100\nPidFile none\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	for i := 1; i <= hundredPeers; i++ {
		cmd := o.links.Command(context.WithoutCancel(ctx), i, server, "-D", "-f", config)
		if err := cmd.Start(); err != nil {
			return err
		}
		o.servers = append(o.servers, cmd)
	}
	return nil
}

// parallel measures GNU parallel with the same work on the same machines, which isolates nothing.
func (o *hundred) parallel(ctx context.Context) (float64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, hundredLimit, fmt.Errorf("the limit is %s", hundredLimit))
	defer cancel()
	var hosts []string
	for i := 1; i <= hundredPeers; i++ {
		hosts = append(hosts, strconv.Itoa(hundredPlaces)+"/"+o.links.Address(i).String())
	}
	ssh := "ssh -i " + filepath.Join(o.l.dir, "key") + " -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
	args := []string{"--will-cite", "--ssh", ssh, "-S", strings.Join(hosts, ","), hundredWork + " #{}", ":::"}
	for n := range hundredTasks {
		args = append(args, strconv.Itoa(n))
	}
	begun := time.Now()
	out, err := o.links.Command(ctx, 0, "parallel", args...).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("parallel: %w: %.300s", err, out)
	}
	return bench.InMilliseconds(time.Since(begun)), nil
}

// close ends what open began.
func (o *hundred) close(ctx context.Context) error {
	for _, s := range o.servers {
		_ = s.Process.Kill()
		_ = s.Wait()
	}
	return o.daemons.close(ctx)
}
