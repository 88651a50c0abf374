package host

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/caches"
	"agentbox/agentbox/config"
	"agentbox/agentbox/host/plan"
	"agentbox/agentbox/host/setup"
	"agentbox/agentbox/source"
	"agentbox/agentbox/workspace"
	"agentbox/vmm/image"
)

// twoResults are a damaged setup result and, when that was forgotten, a sound one.
type twoResults struct {
	setup.Results
	forgotten bool
}

func (t *twoResults) Find(_ context.Context, key agentbox.Digest) (caches.Result, error) {
	made := caches.Result{Key: key, Manifest: agentbox.Digest{1}}
	if t.forgotten {
		made.Manifest = agentbox.Digest{2}
	}
	return made, nil
}

func (t *twoResults) Forget(_ context.Context, result agentbox.Digest) error {
	t.forgotten = result == agentbox.Digest{1}
	return nil
}

func (t *twoResults) Open(_ context.Context, result agentbox.Digest, _ caches.Part) (io.ReadCloser, error) {
	if result == (agentbox.Digest{1}) {
		return nil, agentbox.Errorf(agentbox.Corrupt, "a bit is wrong")
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := errors.Join(w.WriteHeader(&tar.Header{Name: "made", Typeflag: tar.TypeReg, Mode: 0o644}), w.Close())
	return io.NopCloser(&b), err
}

// plain lays nothing over an image.
type plain struct{ setup.Images }

func (plain) Derive(_ context.Context, base image.Image, _ image.Derivation, _ agentbox.Progress) (image.Image, error) {
	return base, nil
}

// A setup result that is found damaged when the workspace is made costs no box: it is dropped, and
// the box starts from another.
func TestUpSurvivesDamagedSetupResult(t *testing.T) {
	h := newHome(t)
	m := manage(t, h)
	fake, _ := newTestMachines(t, h, nil)
	fake.running = &m.running
	results := &twoResults{}
	m.setup = setup.New(setup.Config{Home: h, Results: results, Images: plain{}})
	m.machines, m.maker.machines = fake, fake
	m.maker.stager.Overlay = m.setup.Overlay
	m.disk, m.maker.disk = fake.disk, fake.disk
	repo, err := workspace.Describe(t.Context(), repository(t))
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(t.Context(), repo.Root)
	if err != nil {
		t.Fatal(err)
	}
	u := &creation{from: source.Checkout(repo), Facts: plan.Facts{Repo: repo, Directory: repo.Root, Config: cfg, Request: api.UpRequest{Task: true, Cold: true}}}
	u.rec = u.newRecord("")
	u.rec.Box.Isolation, u.rec.Setup = agentbox.MicroVM, []string{"make"}
	if err := m.execute(t.Context(), u, plan.Plan{{Action: api.UpSetup}, {Action: api.UpBox}}, nil); err != nil {
		t.Fatal(err)
	}
	if rec := u.b.record(); !results.forgotten || rec.SetupResult != (agentbox.Digest{2}) || !rec.SetUp || rec.Phase != phaseReady {
		t.Errorf("forgotten %v, result %s, set up %v, %s", results.forgotten, rec.SetupResult.Short(), rec.SetUp, rec.Phase)
	}
	if left, err := filepath.Glob(h.Boxes() + "/*"); err != nil || len(left) != 1 {
		t.Errorf("boxes: %v, %v", left, err)
	}
}

// A hint names nothing that does not help: start runs again at a start only, and the box of a run
// is gone.
func TestFailedCommandHint(t *testing.T) {
	rec := newTestRecord("mine")
	for step, want := range map[string]string{
		"setup": "the box is there: agentbox shell mine; agentbox up tries again",
		"start": "the box is there: agentbox shell mine; agentbox reset tries again",
	} {
		if got := hintOf(step, rec); got != want {
			t.Errorf("%s: %q", step, got)
		}
	}
	rec.Task = true
	if got := hintOf("start", rec); got != "agentbox up makes a box that stays, to look into" {
		t.Error(got)
	}
}
