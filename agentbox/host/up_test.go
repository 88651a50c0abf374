package host

import (
	"os"
	"path/filepath"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/host/flags"
	"agentbox/agentbox/place"
	"agentbox/agentbox/project"
	"agentbox/agentbox/toolchain"
	"agentbox/agentbox/workspace"
)

// Who comes back to a box is told what is wrong with it: that its start command failed, that it has
// no network.
func TestUpReportsProblems(t *testing.T) {
	for name, want := range map[string]agentbox.ProblemKind{
		unlogged: agentbox.ProblemAuditLog,
		noCard:   agentbox.ProblemNoNetworkCard,
		"broken": agentbox.ProblemStart,
		"fine":   "",
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			known(t, h)
			repo, err := workspace.Describe(t.Context(), repository(t))
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := config.Load(t.Context(), repo.Root)
			if err != nil {
				t.Fatal(err)
			}
			rec := newTestRecord(name)
			rec.Box.Lease, rec.Box.Disk = newLease(), cfg.Disk
			rec.Key, rec.Box.Directory = boxKey(agentbox.LifetimeBranch, repo, project.Project{}), repo.Root
			if name == "broken" {
				rec.StartErr = "start of box broken failed: `false` ended with exit code 1"
			}
			names := write(t, h, rec)
			for _, file := range []string{names.Key(), names.KnownHosts()} {
				if err := os.WriteFile(file, []byte("a key"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			superviseFake(t, rec, names, func(place.Policy) error { return nil })
			var output []agentbox.Problem
			_, err = manage(t, h).Up(t.Context(), api.UpRequest{Directory: repo.Root}, func(e agentbox.Event) {
				if e.Problem != nil && (e.Box == name || e.Problem.Detail == rec.StartErr) {
					output = append(output, *e.Problem)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if want == "" && len(output) > 0 || want != "" && (len(output) != 1 || output[0].Kind != want) {
				t.Errorf("said %+v", output)
			}
		})
	}
}

// The box is there after its start commands failed, and whoever uses it later is told.
func TestStartFailureIsRecorded(t *testing.T) {
	h := newHome(t)
	rec := newTestRecord("mine")
	rec.Start, rec.StartDue = []string{"true"}, true
	write(t, h, rec)
	m := manage(t, h)
	b, err := m.boxes.find(t.Context(), api.BoxRef{Box: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.onStart(t.Context(), b, nil); err == nil {
		t.Fatal("commands ran in a box that has no machine")
	}
	if rec, err := readRecord(rec.names(h).Record()); err != nil || rec.StartErr == "" || rec.StartErr != b.record().StartErr {
		t.Errorf("%q, %v", rec.StartErr, err)
	}
}

// What up would do is told of a new box and of one that is there, and none of it is done.
func TestPlanHasNoSideEffects(t *testing.T) {
	h := newHome(t)
	known(t, h)
	repo, err := workspace.Describe(t.Context(), repository(t))
	if err != nil {
		t.Fatal(err)
	}
	m, req := manage(t, h), api.UpRequest{Directory: repo.Root}
	fresh, err := m.Plan(t.Context(), req, nil)
	if err != nil || fresh.Box != "" || fresh.Isolation == "" || fresh.Steps[0] != (api.UpStep{Action: api.UpImage, How: api.UpMissing}) {
		t.Errorf("%+v, %v", fresh, err)
	}
	if left, err := os.ReadDir(h.Boxes()); err != nil || len(left) != 0 {
		t.Errorf("boxes: %v, %v", left, err)
	}
	rec := newTestRecord("mine")
	rec.Key, rec.Box.Directory = boxKey(agentbox.LifetimeBranch, repo, project.Project{Name: repo.Root}), repo.Root
	m.boxes.put(&box{rec: rec})
	there, err := m.Plan(t.Context(), req, nil)
	if err != nil || there.Box != "mine" || len(there.Steps) == 0 || there.Steps[len(there.Steps)-1] != (api.UpStep{Action: api.UpEnsureRunning, How: string(agentbox.Stopped)}) {
		t.Errorf("%+v, %v", there, err)
	}
	if b, err := m.Show(t.Context(), api.BoxRef{Box: "mine"}, nil); err != nil || b.State != agentbox.Stopped {
		t.Errorf("%s, %v", b.State, err)
	}
}

// An up that names an agent and another flag as well still installs the agent: the flags that wait
// for the next reset must not make the box look as if it had the agent already.
func TestUpInstallsAgentWithOtherFlags(t *testing.T) {
	h := newHome(t)
	repo, err := workspace.Describe(t.Context(), repository(t))
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(t.Context(), repo.Root)
	if err != nil {
		t.Fatal(err)
	}
	rec := newTestRecord("mine")
	write(t, h, rec)
	m := manage(t, h)
	b, err := m.boxes.find(t.Context(), api.BoxRef{Box: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	asked := flags.Flags{CPUs: 3, Agent: "helper", Tools: toolchain.Needs{{Tool: toolchain.Node}}}
	if err := m.reportChanges(b, cfg, "", asked, nil); err != nil {
		t.Fatal(err)
	}
	if got := b.record().Overrides; got.CPUs != 3 || got.Agent != "" || len(got.Tools) != 0 {
		t.Fatalf("before the agent is installed the record has %+v", got)
	}
	if err := m.addAgent(t.Context(), b, cfg, asked, nil); err != nil {
		t.Fatal(err)
	}
	if got := b.record().Overrides; got.CPUs != 3 || got.Agent != "helper" || len(got.Tools) != 1 {
		t.Errorf("afterwards it has %+v", got)
	}
}

// A box is reset with the configuration of the directory that the last up was called in.
func TestConfigurationBelowRoot(t *testing.T) {
	h := newHome(t)
	root := repository(t)
	if err := os.MkdirAll(filepath.Join(root, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	rec := newTestRecord("mine")
	rec.Box.Directory = root
	write(t, h, rec)
	m := manage(t, h)
	b, err := m.boxes.find(t.Context(), api.BoxRef{Box: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.reportChanges(b, cfg, "a/b", flags.Flags{Devcontainer: "web"}, func(agentbox.Event) {}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a/b", "a", ""} {
		if got := b.record().place(h); got != (config.Place{Directory: filepath.Join(root, want), Devcontainer: "web"}) {
			t.Errorf("%+v, want %s", got, want)
		}
		if want != "" {
			if err := os.Remove(filepath.Join(root, want)); err != nil {
				t.Fatal(err)
			}
		}
	}
}
