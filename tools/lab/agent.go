package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/task/agents"
	"agentbox/bench"
)

// openedAgents are the built-in agents that are measured. All of them come from the npm registry.
var openedAgents = []string{"claude", "codex", "gemini", "opencode"}

// agentScenarios returns the scenarios that open a coding agent in a box that has it. A sample lasts from
// the start of the command line to the agent's first output; the agent is asked for its version. In
// gVisor, each is compared with the same program in a bare runsc with the box's image. An agent is
// installed before the first sample of its scenario. box is the result of WarmUp.
func agentScenarios(l *bench.Lab, box agentbox.Box) []bench.Scenario {
	var all []bench.Scenario
	for _, name := range openedAgents {
		o := &openedAgent{name: name, installation: l.Plain}
		own := bench.InBoxes(box, bench.EnterLimit, bench.Scenario{Name: "agent/" + name, Setup: o.prepare, Measure: o.open, Teardown: o.removeBoxes})
		if box.Isolation == agentbox.GVisor {
			bare := bench.InBoxes(agentbox.Box{}, bench.EnterLimit, bench.Scenario{Name: "runsc/agent-" + name, Setup: o.prepareBare, Measure: o.openBare, Teardown: o.stopBare})
			own[0].Baseline = bare[0].Name
			all = append(all, bare...)
		}
		all = append(all, own...)
	}
	return all
}

// openedAgent is an agent in the box of a repository of its own. Both of its scenarios share one
// openedAgent, so the preparation is done once.
type openedAgent struct {
	name string
	// installation is the Lab's at first. prepare replaces it by a copy whose environment has the
	// variables from which the profile takes its secrets.
	installation *bench.Installation
	repo         string // "" until the box exists
	program      string
	// bare is the container beside the box, nil until it is needed.
	bare *bareTarget
}

// argv returns the command line that is measured.
func (o *openedAgent) argv() []string {
	return slices.Concat([]string{"agent"}, o.installation.Lab.Flags, []string{o.name, "--", "--version"})
}

// prepare makes the box and installs the agent in it, once. Printing a version needs no model, so
// the key that a profile asks for is a dummy.
func (o *openedAgent) prepare(ctx context.Context) error {
	if o.repo != "" {
		return nil
	}
	profile, err := agents.Dirs{User: o.installation.Home.Agents()}.Find(o.name)
	if err != nil {
		return err
	}
	here := *o.installation
	for _, s := range profile.Secrets {
		here.Program.Env = append(slices.Clone(here.Program.Env), s.Name+"=of-a-benchmark")
	}
	repo, err := here.Lab.Repo(ctx, "agent-"+o.name, bench.SmallRepository)
	if err != nil {
		return err
	}
	// The command line installs the agent before it starts it: up to warmUpTime, once.
	o.installation, o.program = &here, profile.Program
	end := here.Lab.Say.Begin("agent", o.name)
	ctx, cancel := context.WithTimeoutCause(ctx, bench.WarmUpTime, fmt.Errorf("the limit is %s", bench.WarmUpTime))
	defer cancel()
	if _, _, err = here.Program.Run(ctx, repo, o.argv()...); err == nil {
		o.repo = repo
		end("")
	}
	return err
}

// open measures one start in the box, which is already running.
func (o *openedAgent) open(ctx context.Context) (float64, error) {
	cmd := exec.CommandContext(ctx, o.installation.Program.Path, o.argv()...)
	cmd.Dir, cmd.Env = o.repo, append(os.Environ(), o.installation.Program.Env...)
	return firstOutput(ctx, cmd)
}

// removeBoxes removes the boxes.
func (o *openedAgent) removeBoxes(ctx context.Context) error { return o.installation.Remove(ctx) }

// prepareBare starts a container with the box's image, its environment and a clone of its
// repository.
func (o *openedAgent) prepareBare(ctx context.Context) error {
	if err := o.prepare(ctx); err != nil {
		return err
	}
	out, err := o.installation.Do(ctx, o.repo, "show", "--json")
	if err != nil {
		return err
	}
	var shown agentbox.Box
	if err := json.Unmarshal(out, &shown); err != nil {
		return err
	}
	env, err := o.installation.Environment(ctx, shown.ID.String())
	if err != nil {
		return err
	}
	// A clone, because the box has a copy too: git runs in both.
	clone := o.repo + "-bare"
	if err := bench.Git(ctx, o.repo, "clone", "-q", o.repo, clone); err != nil {
		return err
	}
	if o.bare, err = newBareTarget(o.installation.Lab, "bare-"+o.name, shown.Image, clone, "", env, option{}); err != nil {
		return err
	}
	return o.bare.start(ctx)
}

// openBare measures the same program in the bare container.
func (o *openedAgent) openBare(ctx context.Context) (float64, error) {
	return firstOutput(ctx, o.bare.command(ctx, "exec", "--cwd="+bareWork, bareID, o.program, "--version"))
}

// stopBare stops the container, if it was started.
func (o *openedAgent) stopBare(ctx context.Context) error {
	if o.bare == nil {
		return nil
	}
	return o.bare.stop(ctx)
}

// firstOutput runs cmd to its end and returns the milliseconds until its first output. cmd gets a
// process group of its own, so that Ctrl-C reaches only us; the end of ctx ends it.
func firstOutput(ctx context.Context, cmd *exec.Cmd) (float64, error) {
	// Let the machine finish what the last sample left to do.
	if err := bench.Sleep(ctx, bench.Settle); err != nil {
		return 0, err
	}
	cmd.SysProcAttr, cmd.WaitDelay = &syscall.SysProcAttr{Setpgid: true}, bench.KillAfter
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	started := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	_, err = io.ReadFull(out, make([]byte, 1))
	took := bench.InMilliseconds(time.Since(started))
	_, restErr := io.Copy(io.Discard, out)
	if err = errors.Join(err, restErr, cmd.Wait()); err != nil {
		return took, fmt.Errorf("%s: %w", cmd, err)
	}
	return took, nil
}
