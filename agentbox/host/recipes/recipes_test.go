package recipes

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/host/flags"
	"agentbox/agentbox/host/images"
	"agentbox/agentbox/project"
	"agentbox/vmm/image"
)

// fakeConsent approves what it is told to, and remembers what was made by a lock file.
type fakeConsent struct {
	unapproved, forbidden error
	root                  string
	pinned                []string
}

func (f *fakeConsent) Ask(_ context.Context, root string, _ *config.Config, _ flags.Flags, _ agentbox.Progress) (project.Review, error) {
	f.root = root
	return project.Review{Root: root}, f.unapproved
}

func (f *fakeConsent) ApproveRecipe(_ context.Context, _ project.Review, r image.Recipe) (image.Recipe, error) {
	r.Private = true
	return r, f.forbidden
}

func (f *fakeConsent) RecordPin(_ project.Project, lock string, _ image.Recipe) error {
	f.pinned = append(f.pinned, lock)
	return nil
}

// fakeImages makes every image that it is asked for.
type fakeImages struct{ requests []images.Want }

func (f *fakeImages) Ensure(_ context.Context, w images.Want, _ agentbox.Progress) (image.Image, error) {
	f.requests = append(f.requests, w)
	return image.Image{Name: w.Recipe.Source}, w.Pinned(w.Recipe)
}

func (f *fakeImages) Describe(img image.Image) api.Image { return api.Image{Name: img.Name} }

func TestBuild(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "agentbox.yaml"), []byte("image: apt:bookworm\npackages: [git]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, m := &fakeConsent{}, &fakeImages{}
	img, err := Recipes{d, m}.Build(t.Context(), api.ImageBuildRequest{Directory: dir, Update: true}, nil)
	if err != nil || img.Name != "apt:bookworm" || d.root != dir {
		t.Fatalf("%+v of %s, %v", img, d.root, err)
	}
	lock := filepath.Join(dir, image.LockFile)
	// It is what was granted that is made, and the pin is remembered once it is.
	if w := m.requests[0]; !w.Update || !w.Recipe.Private || w.Lock != lock || len(w.Recipe.Packages) != 1 || len(d.pinned) != 1 || d.pinned[0] != lock {
		t.Errorf("wanted %+v, pinned %v", w, d.pinned)
	}
}

// A repository that nobody configured finds no lock file of ours.
func TestEnsureWithoutConfiguration(t *testing.T) {
	m := &fakeImages{}
	if _, err := (Recipes{&fakeConsent{}, m}).Ensure(t.Context(), project.Review{Root: "/app"}, &config.Config{Image: "apt:bookworm"}, Pins{}, nil); err != nil {
		t.Fatal(err)
	}
	if w := m.requests[0]; w.Lock != "" || w.Update {
		t.Errorf("%+v", w)
	}
}

// Nothing is made of what was not approved, or leads elsewhere by now.
func TestBuildNeedsApproval(t *testing.T) {
	no := errors.New("no")
	for name, d := range map[string]*fakeConsent{"not approved": {unapproved: no}, "leads elsewhere": {forbidden: no}} {
		m := &fakeImages{}
		if _, err := (Recipes{d, m}).Build(t.Context(), api.ImageBuildRequest{Directory: t.TempDir()}, nil); !errors.Is(err, no) || len(m.requests) != 0 {
			t.Errorf("%s: %v, made %v", name, err, m.requests)
		}
	}
}
