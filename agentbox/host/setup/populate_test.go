package setup

import (
	"context"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/caches"
	"agentbox/vmm/image"
)

// conflictingResults is a Results on which every key has a result already.
type conflictingResults struct {
	Results
	first caches.Result
}

func (c conflictingResults) Publish(context.Context, caches.Result, map[caches.Part]string) error {
	return agentbox.Errorf(agentbox.Conflict, "it stands for another")
}

func (c conflictingResults) Find(context.Context, agentbox.Digest) (caches.Result, error) {
	return c.first, nil
}

// A second result is no failure of setup: the box starts from the first, and somebody is told.
func TestFirstPublishedResultWins(t *testing.T) {
	first := caches.Result{Key: agentbox.Digest{1}, Parts: []caches.Part{caches.Runtime}}
	s := New(Config{Results: conflictingResults{first: first}})
	var output string
	got, err := s.publish(t.Context(), caches.Result{Key: agentbox.Digest{1}}, nil, func(e agentbox.Event) { output += e.Detail })
	if err != nil || len(got.Parts) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if !strings.Contains(output, "stands for another") {
		t.Errorf("said %q", output)
	}
}

// What is laid over an image is the result that a key stands for now: after the store was removed,
// or the first result was, another.
func TestImageHasOneResult(t *testing.T) {
	parts := []caches.Part{caches.Dirs}
	first := caches.Result{Key: agentbox.Digest{1}, Manifest: agentbox.Digest{2}}
	second := caches.Result{Key: agentbox.Digest{1}, Manifest: agentbox.Digest{3}}
	base := image.Image{Digest: agentbox.Digest{4}}
	if derivationKey(base, first, parts) == derivationKey(base, second, parts) {
		t.Error("two results of one key have one image")
	}
	s := New(Config{Results: acceptingResults{conflictingResults{first: first}}})
	if got, err := s.publish(t.Context(), caches.Result{Key: first.Key}, nil, nil); err != nil || got.Manifest != first.Manifest {
		t.Errorf("what was published is %s, %v", got.Manifest.Short(), err)
	}
}

// acceptingResults is a Results that publishes.
type acceptingResults struct{ conflictingResults }

func (acceptingResults) Publish(context.Context, caches.Result, map[caches.Part]string) error {
	return nil
}
