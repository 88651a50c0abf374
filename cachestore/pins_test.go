package cachestore

import (
	"slices"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
)

func TestPins(t *testing.T) {
	a, b := blob.Sum([]byte("a")), blob.Sum([]byte("b"))
	table := &pins{dir: newDir(t), manifests: fakeManifests{a: true, b: true}, now: time.Now}
	for _, d := range []agentbox.Digest{a, b} {
		if err := table.Pin(t.Context(), "box:1", d); err != nil {
			t.Fatal(err)
		}
	}
	list, err := table.Pins()
	if err != nil || len(list) != 1 || !slices.Equal(list[0].Manifests, []agentbox.Digest{b}) {
		t.Fatalf("%+v, %v", list, err)
	}
	for name, manifests := range map[string][]agentbox.Digest{"": {a}, strings.Repeat("x", 257): {a}, "box:2": nil} {
		if err := table.Pin(t.Context(), name, manifests...); agentbox.CodeOf(err) != agentbox.Invalid {
			t.Errorf("pin %q of %d: %v", name, len(manifests), err)
		}
	}
	if err := table.Pin(t.Context(), "box:2", blob.Sum(nil)); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("what is not here was pinned: %v", err)
	}
	flip(t, table.path(pinsDir, hashed("box:1")), 20)
	if _, err := table.Pins(); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("a damaged pin is passed over: %v", err)
	}
	for range 2 {
		if err := table.Unpin("box:1"); err != nil {
			t.Error(err)
		}
	}
}
