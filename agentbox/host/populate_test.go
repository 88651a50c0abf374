package host

import (
	"context"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/caches"
)

// taken is a Shelf on which every key has a result already.
type taken struct {
	Shelf
	first caches.Made
}

func (s taken) Publish(context.Context, caches.Made, map[caches.Part]string) error {
	return agentbox.Errorf(agentbox.Conflict, "it stands for another")
}

func (s taken) Find(context.Context, agentbox.Digest) (caches.Made, error) { return s.first, nil }

// A second result is no failure of setup: the box starts from the first, and somebody is told.
func TestASecondResultIsNotUsed(t *testing.T) {
	first := caches.Made{Key: agentbox.Digest{1}, Parts: []caches.Part{caches.Runtime}}
	m := &Manager{shelf: taken{first: first}}
	var said string
	got, err := m.publish(t.Context(), caches.Made{Key: agentbox.Digest{1}}, nil, func(e agentbox.Event) { said += e.Detail })
	if err != nil || len(got.Parts) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if !strings.Contains(said, "stands for another") {
		t.Errorf("said %q", said)
	}
}
