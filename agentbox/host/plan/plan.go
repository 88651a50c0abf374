// Package plan decides what `up` and `reset` do, from facts that are known before anything is done.
// It reads nothing and does nothing: host carries out a plan step by step, and `up --explain` shows
// it. So what up does, and in which order, can be read in this file and tested without machines.
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
	Request   api.UpRequest
	Repo      workspace.Repo // what the box is made from
	Directory string         // where that is from, for people
	Config    *config.Config // with the flags applied
	Flags     flags.Flags    // of this command line
	Agent     agents.Profile // that the command line names, if any
	// Review: what the repository asks of this host, and what of it waits for approval.
	Review    project.Review
	Kind      isolation.Choice // of a new machine
	Templates bool             // machines of this kind are restored from templates, unless Request.Cold
	Subdir    bool             // the repository has files where the caller is
	Results   bool             // setup results are kept here by key
	Found     Found
	Box       *Box // the existing box; nil: a new one is made
}

// Found tells whether what a new box starts from is here: api.UpPresent, api.UpMissing, or "" if
// that depends on an earlier step. It says how long a step takes; each step looks again.
type Found struct {
	Image, Tools, Setup string
}

// Box is an existing box.
type Box struct {
	agentbox.Box
	Approved           string // digest of the document that governs it
	Agent              string // that is installed in it
	SetupDue, StartDue bool   // commands that have yet to run in it
	Task               bool
	Start              []string
	Services           []protocol.Service
}

// Up plans an `up`.
func Up(f Facts) (Plan, error) {
	if f.Box != nil {
		return f.planExisting()
	}
	return f.planNew()
}

// Plan is a list of steps, in order.
type Plan []api.UpStep

func (p *Plan) add(do api.UpAction, how string) { *p = append(*p, api.UpStep{Action: do, How: how}) }

// addIf adds a step if is holds.
func (p *Plan) addIf(is bool, do api.UpAction, how string) {
	if is {
		p.add(do, how)
	}
}

// Has tells whether a plan has a step.
func (p Plan) Has(do api.UpAction) bool {
	return slices.ContainsFunc(p, func(s api.UpStep) bool { return s.Action == do })
}

// planNew plans a new box. Nothing of the box exists before the step that makes it.
func (f Facts) planNew() (p Plan, err error) {
	if f.Request.Command && f.Repo.Subdir != "" && !f.Subdir {
		return nil, agentbox.Errorf(agentbox.Invalid, "the box will not have %s: it holds nothing but what git ignores", f.Repo.Subdir).
			WithHint("run the command from %s, or use --workdir", f.Directory)
	}
	if p = f.planMachine(); p.onlyReports() {
		return p, nil
	}
	start := api.UpBoot
	if f.restores() {
		start = api.UpRestore
	}
	p.add(api.UpBox, start)
	// A box that has a setup result skips this step. Where setup failed in its clean box, it runs
	// here.
	how := ""
	if f.SetupOnce() {
		how = api.UpIfFailed
	}
	p.addIf(len(f.Config.Setup) > 0, api.UpRunSetup, how)
	p.addIf(len(f.Config.Start) > 0, api.UpRunStart, "")
	p.addIf(len(f.Agent.Sessions) > 0 && !f.Request.Task, api.UpRecall, "")
	p.addIf(f.Request.Command && len(f.Config.Services)+len(f.Config.Compose) > 0, api.UpServices, "")
	return p, nil
}

// planMachine plans what a machine starts from. It stops if something waits for approval.
func (f Facts) planMachine() (p Plan) {
	pending, host := f.Review.Pending()
	if host {
		return Plan{{Action: api.UpApproval, How: api.UpStop}}
	}
	p.addIf(pending, api.UpApproval, api.UpPartial)
	if agentbox.KindOf(f.Kind.Kind).Elsewhere {
		p.add(api.UpAccount, "")
		return p
	}
	p.add(api.UpImage, f.Found.Image)
	p.addIf(agentbox.KindOf(f.Kind.Kind).GuestKernel, api.UpKernel, "")
	p.addIf(len(f.Config.Toolchain) > 0 && f.Config.Suite() != "", api.UpTools, f.Found.Tools)
	p.addIf(f.SetupOnce(), api.UpSetup, f.Found.Setup)
	p.addIf(f.restores(), api.UpTemplate, "")
	return p
}

// restores tells whether the machine is restored from a template; otherwise it boots.
func (f Facts) restores() bool { return f.Templates && !f.Request.Cold }

// SetupOnce tells whether setup runs once for its key, in a clean box; else it runs in every box. It
// has a key if the configuration says what it depends on or what it fills.
func (f Facts) SetupOnce() bool {
	return f.Results && f.Config.SetupOnce() && !agentbox.KindOf(f.Kind.Kind).Elsewhere
}

// onlyReports tells whether a plan only reports what waits for approval.
func (p Plan) onlyReports() bool { return p[0] == api.UpStep{Action: api.UpApproval, How: api.UpStop} }

// planExisting plans the use of a box. Changes of the configuration wait for a reset.
func (f Facts) planExisting() (p Plan, err error) {
	b := f.Box
	if f.Request.Name != "" && f.Request.Name != b.Name {
		return nil, agentbox.Errorf(agentbox.Exists, "%s already has box %s for branch %s", f.Directory, b.Name, f.Repo.Branch).
			WithHint("agentbox fork --name %s makes another one like it", f.Request.Name)
	}
	if err := isolation.Check(b.Box, f.Request.Isolation); err != nil {
		return nil, err
	}
	p.add(api.UpChanges, "")
	// While something waits for approval the box stays as it was made. A reset applies it later.
	pending, _ := f.Review.Pending()
	p.addIf(pending, api.UpApproval, api.UpPartial)
	p.addIf(!pending && b.Approved != f.Review.InForce, api.UpPolicy, "")
	p.add(api.UpEnsureRunning, string(b.State))
	p.addIf(f.Flags.Agent != "" && f.Flags.Agent != b.Agent, api.UpAgent, "")
	p.addIf(b.SetupDue, api.UpRunSetup, "")
	p.addIf(len(b.Start) > 0 && (b.StartDue || b.State == agentbox.Stopped), api.UpRunStart, "")
	p.addIf(len(f.Agent.Sessions) > 0 && !b.Task, api.UpRecall, "")
	p.addIf(f.Request.Command && len(b.Services) > 0, api.UpServices, "")
	return p, nil
}

// Reset plans what a reset does before the old machine ends: getting everything the new one starts
// from.
func Reset(f Facts) Plan { return f.planMachine() }

// Restart plans a reset of a box whose checkout is gone, and its configuration with it.
func Restart(f Facts) (p Plan) {
	p.addIf(f.restores(), api.UpTemplate, "")
	return p
}
