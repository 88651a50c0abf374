package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/toolchain"
	"agentbox/agentbox/workspace"
)

// Project is a repository of the user whose commands are measured, in boxes and on the machine.
type Project struct {
	repo     workspace.Repo
	Commands []toolchain.Command // in the order in which they are run; never empty
	env      []string            // of commands on the machine: what the configuration sets in boxes
	phases   []Phase             // of the last box that was entered
	peers    []peerPlace         // in which the commands run, too
	asks     string              // the digest of what the repository asks for, all of which is approved
}

// OpenProject reads the repository of a directory: the commands of bench: in its configuration, else
// those that its files suggest. The error is Conflict while the repository asks for what nobody has
// approved, because the boxes of a benchmark get no more than the user's own.
func (r *Run) OpenProject(ctx context.Context, dir string) (*Project, error) {
	repo, err := workspace.Describe(ctx, dir)
	if err != nil {
		return nil, err
	}
	cfg, err := config.Load(ctx, repo.Root)
	if err != nil {
		return nil, err
	}
	p := &Project{repo: repo, Commands: cfg.Bench}
	for _, name := range slices.Sorted(maps.Keys(cfg.Env)) {
		if name != "PATH" && name != "HOME" { // those of a box name its own places
			p.env = append(p.env, name+"="+cfg.Env[name])
		}
	}
	if len(p.Commands) == 0 {
		if p.Commands, err = detectCommands(repo.Root); err != nil {
			return nil, err
		}
	}
	report, err := policyOf(ctx, Program{Path: r.Binary}, repo.Root)
	if err != nil {
		return nil, err
	}
	if len(report.Plan) > 0 {
		return nil, agentbox.Errorf(agentbox.Conflict, "%s asks for more than is approved", repo.Root).WithHint("agentbox policy show, then agentbox policy approve")
	}
	p.asks = report.Digest
	return p, nil
}

// detectCommands guesses the commands. The error is NotFound if there are none.
func detectCommands(dir string) ([]toolchain.Command, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if found := toolchain.Commands(root); len(found) > 0 {
		return found, nil
	}
	return nil, agentbox.Errorf(agentbox.NotFound, "%s has no commands to measure", dir).WithHint("name them in agentbox.yaml, as in bench: {build: make, test: make test}")
}

// policyOf asks a daemon what is in force for a repository, and what waits.
func policyOf(ctx context.Context, p Program, dir string) (report api.PolicyReport, err error) {
	out, _, err := p.Run(ctx, dir, "policy", "show", "--json")
	if err == nil {
		err = json.Unmarshal(out, &report)
	}
	return report, err
}

// adopt approves in the home of a Lab what the user has approved. It is an error if the repository
// asks for something else by now.
func (p *Project) adopt(ctx context.Context, in *Installation) error {
	report, err := policyOf(ctx, in.Program, p.repo.Root)
	switch {
	case err != nil:
		return err
	case report.Digest != p.asks:
		return agentbox.Errorf(agentbox.Conflict, "%s changed what it asks for", p.repo.Root).WithHint("run the benchmark again")
	case len(report.Plan) == 0:
		return nil
	}
	_, err = in.Do(ctx, p.repo.Root, "policy", "approve", p.asks)
	return err
}

// Scenarios returns everything that is measured of a project: entering its boxes, and each command
// with cold and with warm caches. Kinds are compared in alternating runs, and so is the machine itself
// if native is true. labs has one Lab for each kind; it gets boxes that stay until it is closed.
func (p *Project) Scenarios(labs []*Lab, native bool) []Scenario {
	var all []Scenario
	var boxes []*projectBox
	for _, lab := range labs {
		b := &projectBox{project: p, lab: lab}
		boxes, all = append(boxes, b), append(all, b.entering()...)
	}
	var machine *place
	if native {
		machine = p.machine(labs[0], "native")
	}
	for _, warm := range []bool{false, true} {
		for i := range p.Commands {
			if native {
				all = append(all, machine.scenario("native/", i, warm))
			}
			for _, b := range boxes {
				s := b.place().scenario("work/", i, warm)
				s.Isolation = b.lab.kind
				if native {
					s.Baseline = "native/" + caption(p.Commands[i].Name, warm)
				}
				all = append(all, s)
			}
			for _, peer := range p.peers {
				s := peer.scenario("peer/"+peer.name+"/", i, warm)
				s.Baseline = "native/" + caption(p.Commands[i].Name, warm)
				all = append(all, s)
			}
		}
	}
	return all
}

// caption is the name of a command's scenario behind the slash.
func caption(command string, warm bool) string {
	if warm {
		return command
	}
	return command + "-cold"
}

// projectBox is the box of a project in a Lab of one kind.
type projectBox struct {
	project *Project
	lab     *Lab
	load    agentLoad // of a crowd's box
	at      *place
}

// name is that of the box, and of its remote in the user's checkout while it exists.
func (p *projectBox) name() string { return "bench-" + string(p.lab.kind) }

// renew makes a new box in which no command ran, in place of the last.
func (p *projectBox) renew(ctx context.Context) error {
	_, err := p.enter(ctx, "--detach")
	return err
}

// enter makes a new box in place of the last, and returns the milliseconds of that.
func (p *projectBox) enter(ctx context.Context, arg ...string) (float64, error) {
	in := p.lab.Plain
	if err := in.Remove(ctx); err != nil {
		return 0, err
	}
	if err := p.project.adopt(ctx, in); err != nil {
		return 0, err
	}
	if err := Sleep(ctx, Settle); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, WarmUpTime, fmt.Errorf("the limit is %s", WarmUpTime))
	defer cancel()
	program := in.Program
	program.Said = func(text string) { p.project.phases = parsePhases(text) }
	_, took, err := program.Run(ctx, p.project.repo.Root, append([]string{"up", "--name", p.name(), "--isolation", string(p.lab.kind)}, arg...)...)
	return InMilliseconds(took), err
}

func (p *projectBox) place() *place {
	if p.at == nil {
		p.at = &place{WorkTarget: WorkBox{Installation: p.lab.Plain, Name: p.name()}, fresh: p.renew, commands: p.project.Commands}
	}
	return p.at
}

func (p *projectBox) entering() []Scenario {
	new := func(ctx context.Context) (float64, error) {
		p.place().ran = nil // the box goes away
		return p.enter(ctx, "--", "true")
	}
	ready := func(ctx context.Context) error { return p.place().begin(ctx) }
	in := p.lab.Plain
	all := []Scenario{
		// With all that is missing: the image, the kernel, the tools, and what setup makes.
		{Name: "enter/first", Most: 1, Measure: new, Ceiling: InMilliseconds(WarmUpTime)},
		{Name: "enter/new", Measure: new},
		{Name: "enter/exec", Measure: func(ctx context.Context) (float64, error) {
			if err := ready(ctx); err != nil {
				return 0, err
			}
			return in.Timed(ctx, EnterLimit, in.Home.Dir, "exec", p.name(), "--", "true")
		}},
		{Name: "enter/resume", Measure: func(ctx context.Context) (float64, error) {
			if err := ready(ctx); err != nil {
				return 0, err
			}
			if _, err := in.Do(ctx, in.Home.Dir, "pause", p.name()); err != nil {
				return 0, err
			}
			return in.Timed(ctx, BootLimit, in.Home.Dir, "exec", p.name(), "--", "true")
		}},
	}
	return InBoxes(agentbox.Box{Isolation: p.lab.kind}, BootLimit, all...)
}

// machine returns the place of a project on the machine itself: a working copy in a Lab, as a box
// gets it, and caches of its own, so that cold means the same as in a box.
func (p *Project) machine(lab *Lab, name string) *place {
	dir := lab.Dir + "/" + reposName + "/" + name
	cache := dir + ".cache"
	env := slices.Clone(p.env)
	for _, v := range cacheVariables {
		env = append(env, fmt.Sprintf("%s=%s/%s", v, cache, v))
	}
	return &place{
		WorkTarget: nativeTarget{dir: dir, env: env}, commands: p.Commands,
		fresh: func(ctx context.Context) error {
			for _, d := range []string{dir, cache} {
				if err := removeTree(d); err != nil {
					return err
				}
			}
			_, err := workspace.Stage(ctx, p.repo, dir, workspace.Options{})
			return err
		},
	}
}

// cacheVariables move the caches of common tools, which are in the user's home otherwise.
var cacheVariables = []string{"XDG_CACHE_HOME", "GOCACHE", "GOMODCACHE", "npm_config_cache", "YARN_CACHE_FOLDER", "PIP_CACHE_DIR", "CCACHE_DIR"}
