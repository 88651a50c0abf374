package prune

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/vmm/image"
)

// fakeBoxes is all that a Pruner asks.
type fakeBoxes struct {
	unread  error
	known   agentbox.BoxID
	idle    []Box
	broken  error
	removed []string
}

func (f *fakeBoxes) Unreadable() error            { return f.unread }
func (f *fakeBoxes) Known(id agentbox.BoxID) bool { return id == f.known }
func (f *fakeBoxes) Templates() map[string]bool   { return map[string]bool{"used": true} }
func (f *fakeBoxes) Idle() []Box                  { return f.idle }
func (f *fakeBoxes) remove(what string) func() error {
	return func() error { f.removed = append(f.removed, what); return f.broken }
}

// fakeTemplates are templates, and images.
type fakeTemplates struct{ *fakeBoxes }

func (f fakeTemplates) Unneeded(used map[string]bool) ([]string, error) {
	if !used["used"] {
		return nil, errors.New("nobody said what is used")
	}
	return []string{"0123456789abcdef"}, nil
}
func (f fakeTemplates) Discard(key string) error { return f.remove("template " + key)() }

type fakeImages struct{ *fakeBoxes }

func (f fakeImages) Unneeded() ([]image.Image, error) {
	return []image.Image{{Digest: agentbox.Digest{1}, Name: "old", Path: "/nowhere/old/image"}}, nil
}
func (f fakeImages) Forget(_ context.Context, d agentbox.Digest) error {
	return f.remove("image " + d.Short())()
}

func pruner(t *testing.T, w *fakeBoxes) Pruner {
	t.Helper()
	h := home.Home{Dir: t.TempDir()}
	old := agentbox.NewBoxID()
	for _, id := range []agentbox.BoxID{w.known, old, agentbox.NewBoxID()} {
		if err := os.MkdirAll(h.Audit(id), 0o700); err != nil {
			t.Fatal(err)
		}
		if id == old || id == w.known {
			long := time.Now().Add(-2 * auditRetention)
			if err := os.Chtimes(h.Audit(id), long, long); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(h.AuditLogs(), "stranger"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return Pruner{Home: h, Boxes: w, Templates: fakeTemplates{w}, Images: fakeImages{w}}
}

func kinds(items []api.PruneItem) (out []string) {
	for _, i := range items {
		out = append(out, i.Kind)
		if i.Reason == "" {
			out = append(out, fmt.Sprintf("%+v goes for no reason", i))
		}
	}
	slices.Sort(out)
	return out
}

func TestPrune(t *testing.T) {
	w := &fakeBoxes{known: agentbox.NewBoxID()}
	dir := t.TempDir()
	for name, directory := range map[string]string{"here": dir, "lost": filepath.Join(dir, "gone"), "of nothing": ""} {
		w.idle = append(w.idle, Box{Box: agentbox.Box{Name: name, Directory: directory}, Remove: func(context.Context, agentbox.Progress) error { return w.remove("box " + name)() }})
	}
	p := pruner(t, w)
	all := []string{"audit", "box", "image", "template"}
	got, err := p.Prune(t.Context(), api.PruneRequest{Boxes: true, DryRun: true}, nil)
	if err != nil || !slices.Equal(kinds(got.Items), all) || len(w.removed) != 0 {
		t.Errorf("a dry run: %v, %v went, %v", kinds(got.Items), w.removed, err)
	}
	output := ""
	got, err = p.Prune(t.Context(), api.PruneRequest{DryRun: true}, func(e agentbox.Event) { output += e.Detail })
	if err != nil || !slices.Equal(kinds(got.Items), []string{"audit", "image", "template"}) || !strings.Contains(output, "box lost stays: its directory is gone") {
		t.Errorf("without boxes: %v, said %q, %v", kinds(got.Items), output, err)
	}
	got, err = p.Prune(t.Context(), api.PruneRequest{Boxes: true}, nil)
	slices.Sort(w.removed)
	if want := []string{"box lost", "image " + agentbox.Digest{1}.Short(), "template 0123456789abcdef"}; err != nil || !slices.Equal(kinds(got.Items), all) || !slices.Equal(w.removed, want) {
		t.Errorf("%v, %v went, %v", kinds(got.Items), w.removed, err)
	}
	if left, err := os.ReadDir(p.Home.AuditLogs()); err != nil || len(left) != 3 { // of the box that is known, of the young one, and what is none
		t.Errorf("%v, %v", left, err)
	}
}

// Where nobody knows what a box needs nothing goes, and what cannot be removed is an error.
func TestPruneStops(t *testing.T) {
	w := &fakeBoxes{unread: errors.New("a box that nobody can read")}
	if _, err := pruner(t, w).Prune(t.Context(), api.PruneRequest{}, nil); !errors.Is(err, w.unread) || len(w.removed) != 0 {
		t.Errorf("%v, %v went", err, w.removed)
	}
	w = &fakeBoxes{broken: errors.New("the disk is broken")}
	if got, err := pruner(t, w).Prune(t.Context(), api.PruneRequest{}, nil); !errors.Is(err, w.broken) || len(got.Items) != 0 {
		t.Errorf("%v, %v", err, got.Items)
	}
}
