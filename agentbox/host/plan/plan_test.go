package plan

import (
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/host/flags"
	"agentbox/agentbox/host/isolation"
	"agentbox/agentbox/project"
	"agentbox/agentbox/task/agents"
	"agentbox/agentbox/toolchain"
	"agentbox/agentbox/workspace"
	"agentbox/policy"
	"agentbox/vmm/guest/protocol"
)

// text is a plan in one line.
func text(p Plan) string {
	var steps []string
	for _, s := range p {
		step := string(s.Action)
		if s.How != "" {
			step += " (" + s.How + ")"
		}
		steps = append(steps, step)
	}
	return strings.Join(steps, ", ")
}

// facts are those of a new box of a plain repository on gVisor, changed.
func facts(change func(*Facts)) Facts {
	f := Facts{
		Repo: workspace.Repo{Root: "/app", Branch: "main"}, Subdir: true, Results: true,
		Config: &config.Config{Image: "apt:bookworm"}, Kind: isolation.Choice{Kind: agentbox.GVisor},
	}
	if change != nil {
		change(&f)
	}
	return f
}

// microVM are those of a new box whose kind has templates, changed.
func microVM(change func(*Facts)) Facts {
	return facts(func(f *Facts) {
		f.Kind.Kind, f.Templates = agentbox.MicroVM, true
		if change != nil {
			change(f)
		}
	})
}

// there are those of a box that is there in a state.
func there(state agentbox.State, change func(*Facts)) Facts {
	return facts(func(f *Facts) {
		f.Review.InForce = "approved"
		f.Box = &Box{Box: agentbox.Box{Name: "mine", Isolation: agentbox.GVisor, State: state}, Approved: "approved"}
		if change != nil {
			change(f)
		}
	})
}

var (
	waits = project.Review{Plan: []policy.Change{{Add: true, Kind: policy.AgentChange}}, InForce: "approved"} // and boxes are made without
	stops = project.Review{Plan: []policy.Change{{Add: true, Kind: "kernel"}}, InForce: "approved"}
	agent = agents.Profile{Name: "claude", Sessions: []string{"~/.claude/projects"}}
)

func TestUp(t *testing.T) {
	for want, f := range map[string]Facts{
		// A new box.
		"image, box (boot)":                              facts(nil),
		"image, kernel, template, box (restore)":         microVM(nil),
		"image, kernel, box (boot)":                      microVM(func(f *Facts) { f.Request.Cold = true }),
		"image, kernel, template, box (restore), recall": microVM(func(f *Facts) { f.Agent = agent }),
		"image, tools, box (boot)": facts(func(f *Facts) {
			f.Config.Toolchain = toolchain.Needs{{Tool: "go"}}
		}),
		"image (present), box (boot)": facts(func(f *Facts) {
			f.Config.Image, f.Config.Toolchain = "example.com/image", toolchain.Needs{{Tool: "go"}} // which takes no package
			f.Found = Found{Image: api.UpPresent, Tools: api.UpPresent, Setup: api.UpMissing}
		}),
		"image, box (boot), run_setup": facts(func(f *Facts) { f.Config.Setup = []string{"make"} }),
		"image, setup, box (boot), run_setup (if_failed)": facts(func(f *Facts) {
			f.Config.Setup, f.Config.Lockfiles = []string{"make"}, []string{"go.sum"}
		}),
		"image, box (boot), run_setup, run_start": facts(func(f *Facts) { // nothing is kept by key here
			f.Config.Setup, f.Config.Caches, f.Config.Start, f.Results = []string{"make"}, []string{"~/.cache"}, []string{"serve"}, false
		}),
		"image, box (boot), recall, services": facts(func(f *Facts) {
			f.Agent, f.Request.Command, f.Config.Services = agent, true, []config.Service{{Name: "db"}}
		}),
		"image, box (boot), services": facts(func(f *Facts) { // the box of a task remembers nothing
			f.Agent, f.Request.Task, f.Request.Command, f.Config.Services = agent, true, true, []config.Service{{Name: "db"}}
		}),
		// On another machine there is no image and no clean box.
		"account, box (boot), run_setup": facts(func(f *Facts) {
			f.Kind.Kind, f.Config.Setup, f.Config.Lockfiles, f.Config.Toolchain = agentbox.SSH, []string{"make"}, []string{"go.sum"}, toolchain.Needs{{Tool: "go"}}
		}),
		"approval (partial), image, box (boot)": facts(func(f *Facts) { f.Review = waits }),
		"approval (stop)":                       facts(func(f *Facts) { f.Review, f.Config.Setup = stops, []string{"make"} }),

		// A box that is there.
		"changes, ensure_running (running)":                       there(agentbox.Running, nil),
		"changes, ensure_running (paused)":                        there(agentbox.Paused, func(f *Facts) { f.Box.Start = []string{"serve"} }),
		"changes, ensure_running (stopped), run_start":            there(agentbox.Stopped, func(f *Facts) { f.Box.Start = []string{"serve"} }),
		"changes, policy, ensure_running (running)":               there(agentbox.Running, func(f *Facts) { f.Box.Approved = "" }),
		"changes, approval (partial), ensure_running (running)":   there(agentbox.Running, func(f *Facts) { f.Review, f.Box.Approved = stops, "" }),
		"changes, ensure_running (running), run_setup, run_start": there(agentbox.Running, func(f *Facts) { f.Box.SetupDue, f.Box.StartDue, f.Box.Start = true, true, []string{"serve"} }),
		"changes, ensure_running (running), agent, recall":        there(agentbox.Running, func(f *Facts) { f.Agent, f.Flags = agent, flags.Flags{Agent: "claude"} }),
		"changes, ensure_running (running), recall":               there(agentbox.Running, func(f *Facts) { f.Agent, f.Flags, f.Box.Agent = agent, flags.Flags{Agent: "claude"}, "claude" }),
		"changes, ensure_running (running), services":             there(agentbox.Running, func(f *Facts) { f.Request.Command, f.Box.Services = true, []protocol.Service{{Name: "db"}} }),
		"changes, ensure_running (stopped)":                       there(agentbox.Stopped, func(f *Facts) { f.Request.Name, f.Request.Isolation = "mine", agentbox.GVisor }),
	} {
		if p, err := Up(f); err != nil || text(p) != want {
			t.Errorf("%s\nwant %s, %v", text(p), want, err)
		}
	}
}

// What cannot be is refused before anything is done.
func TestUpRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		facts Facts
		code  agentbox.Code
		hint  string
	}{
		"a directory that the box will not have": {facts(func(f *Facts) { f.Subdir, f.Repo.Subdir, f.Request.Command = false, "build", true }), agentbox.Invalid, "--workdir"},
		"another name":                           {there(agentbox.Running, func(f *Facts) { f.Request.Name = "other" }), agentbox.Exists, "agentbox fork --name other"},
		"another kind":                           {there(agentbox.Running, func(f *Facts) { f.Request.Isolation = agentbox.MicroVM }), agentbox.Conflict, "--isolation microvm"},
	} {
		p, err := Up(c.facts)
		if agentbox.CodeOf(err) != c.code || !strings.Contains(agentbox.AsError(err).Hint, c.hint) || p != nil {
			t.Errorf("%s: %v, %v", name, text(p), err)
		}
	}
}

func TestReset(t *testing.T) {
	cold := microVM(func(f *Facts) { f.Request.Cold = true })
	for want, p := range map[string]Plan{
		"image":                     Reset(facts(nil)),
		"image, kernel, template":   Reset(microVM(nil)),
		"image, kernel":             Reset(cold),
		"approval (stop)":           Reset(facts(func(f *Facts) { f.Review = stops })),
		"approval (partial), image": Reset(facts(func(f *Facts) { f.Review = waits })),
		"template":                  Restart(microVM(nil)),
		"":                          Restart(cold),
	} {
		if text(p) != want {
			t.Errorf("%q, want %q", text(p), want)
		}
	}
	if p := Restart(facts(nil)); len(p) > 0 {
		t.Errorf("a kind without templates: %q", text(p))
	}
}
