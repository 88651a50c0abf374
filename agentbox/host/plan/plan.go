// Package plan decides what `up` and `reset` do, from what is known before anything is done. It
// reads nothing and does nothing: `up --explain` shows a plan, and host carries it out, step by
// step. So what up does, and in which order, is read in this file from top to bottom, and tested
// without machines.
package plan

import (
	"slices"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/host/flags"
	"agentbox/agentbox/host/isolation"
	"agentbox/agentbox/project"
	"agentbox/agentbox/task/agents"
	"agentbox/agentbox/workspace"
	"agentbox/vmm/guest/protocol"
)

// Facts are what a plan follows from.
type Facts struct {
	Request api.UpRequest
	Repo    workspace.Repo
	Config  *config.Config // with the flags applied
	Flags   flags.Flags    // of this command line
	Agent   agents.Profile // that it names, if it names one
	// Review: what the repository asks of this host, and what of that waits for approval.
	Review  project.Review
	Kind    isolation.Choice // of the machine, where one is made
	Subdir  bool             // the repository has files where the caller is
	Results bool             // what setup makes is kept here by key
	Found   Found
	Box     *Box // that is there already; nil: one is made
}

// Found is whether what a new box starts from is here: api.UpHere, api.UpMissing, or "" where that
// depends on what is made before. It changes how long a step takes, and no step: each looks again.
type Found struct {
	Image, Tools, Setup, Template string
}

// Box is a box that is there already.
type Box struct {
	agentbox.Box
	Approved           string // digest of the document that governs it
	Agent              string // whose program it has
	SetupDue, StartDue bool   // commands that are still to be run in it
	Task               bool
	Start              []string
	Services           []protocol.Service
}

// Up is what `up` does.
func Up(f Facts) (Plan, error) {
	if f.Box != nil {
		return f.again()
	}
	return f.fresh()
}

// Plan is what is done, in this order.
type Plan []api.UpStep

func (p *Plan) add(do api.UpAction, how string) { *p = append(*p, api.UpStep{Do: do, How: how}) }

// when adds a step if something is so.
func (p *Plan) when(is bool, do api.UpAction, how string) {
	if is {
		p.add(do, how)
	}
}

// Has tells whether a step is among those of a plan.
func (p Plan) Has(do api.UpAction) bool {
	return slices.ContainsFunc(p, func(s api.UpStep) bool { return s.Do == do })
}

// fresh makes a box. Until the step that makes it nothing of it exists.
func (f Facts) fresh() (p Plan, err error) {
	if f.Request.Command && f.Repo.Subdir != "" && !f.Subdir {
		return nil, agentbox.Errorf(agentbox.Invalid, "the box will not have %s: it holds nothing but what git ignores", f.Repo.Subdir).
			WithHint("run the command from %s, or use --workdir", f.Repo.Root)
	}
	if p = f.stand(); p.stops() {
		return p, nil
	}
	start := api.UpRestore
	if f.Request.Cold {
		start = api.UpBoot
	}
	p.add(api.UpBox, start)
	// What setup made by key is in the box already; where it failed in its clean box, it runs in
	// this one.
	p.when(len(f.Config.Setup) > 0, api.UpRunSetup, f.setup())
	p.when(len(f.Config.Start) > 0, api.UpRunStart, "")
	p.when(len(f.Agent.Sessions) > 0 && !f.Request.Task, api.UpRecall, "")
	p.when(f.Request.Command && len(f.Config.Services) > 0, api.UpServices, "")
	return p, nil
}

// stand gets what a machine starts from. It stops where the repository asks for something of this
// host that nobody has approved.
func (f Facts) stand() (p Plan) {
	pending, host := f.Review.Pending()
	if host {
		return Plan{{Do: api.UpApproval, How: api.UpStop}}
	}
	p.when(pending, api.UpApproval, api.UpLater)
	p.add(api.UpImage, f.Found.Image)
	p.when(f.Kind.Kind == agentbox.MicroVM, api.UpKernel, "")
	p.when(len(f.Config.Toolchain) > 0 && f.Config.Suite() != "", api.UpTools, f.Found.Tools)
	p.when(f.setup() == api.UpOnce, api.UpSetup, f.Found.Setup)
	p.when(!f.Request.Cold, api.UpTemplate, f.Found.Template)
	return p
}

// setup tells whether setup runs once for its key, in a clean box, or in every box: it has a key
// when the configuration says what it depends on or what it fills.
func (f Facts) setup() string {
	if f.Results && f.Config.SetupOnce() {
		return api.UpOnce
	}
	return ""
}

// stops tells whether a plan does nothing but say what waits for approval.
func (p Plan) stops() bool { return p[0] == api.UpStep{Do: api.UpApproval, How: api.UpStop} }

// again makes a box that is there run. What the configuration says now takes effect at the next
// reset.
func (f Facts) again() (p Plan, err error) {
	b := f.Box
	if f.Request.Name != "" && f.Request.Name != b.Name {
		return nil, agentbox.Errorf(agentbox.Exists, "%s already has box %s for branch %s", f.Repo.Root, b.Name, f.Repo.Branch).
			WithHint("agentbox fork --name %s makes another one like it", f.Request.Name)
	}
	if err := isolation.Check(b.Box, f.Request.Isolation); err != nil {
		return nil, err
	}
	p.add(api.UpChanges, "")
	// While something waits the box stays as it was made: what is asked of this host it has not
	// got, and gets no sooner than by a reset.
	pending, _ := f.Review.Pending()
	p.when(pending, api.UpApproval, api.UpLater)
	p.when(!pending && b.Approved != f.Review.InForce, api.UpGovern, "")
	p.add(api.UpWake, string(b.State))
	p.when(f.Flags.Agent != "" && f.Flags.Agent != b.Agent, api.UpAgent, "")
	p.when(b.SetupDue, api.UpRunSetup, "")
	p.when(len(b.Start) > 0 && (b.StartDue || b.State == agentbox.Stopped), api.UpRunStart, "")
	p.when(len(f.Agent.Sessions) > 0 && !b.Task, api.UpRecall, "")
	p.when(f.Request.Command && len(b.Services) > 0, api.UpServices, "")
	return p, nil
}

// Reset is what a reset does before the old machine ends: all that the new one starts from.
func Reset(f Facts) Plan { return f.stand() }

// Restart is a reset of a box whose checkout is gone, and its configuration with it.
func Restart(f Facts) (p Plan) {
	p.when(!f.Request.Cold, api.UpTemplate, "")
	return p
}
