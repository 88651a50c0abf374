package host

import (
	"maps"
	"testing"

	"agentbox/agentbox/api"
	"agentbox/agentbox/place"
	"agentbox/tools/suites/placetest"
)

// Nobody removes the fork of a task's box, and its user comes back to it: limits pause it.
func TestForkOfTaskBox(t *testing.T) {
	h := newHome(t)
	m := manage(t, h)
	rec := newTestRecord("mine")
	rec.Task, rec.Limits.Wall = true, 1
	rec.Box.Labels = map[string]string{"a": "1", "b": "2"}
	write(t, h, rec)
	child, err := m.maker.childRecord(&box{rec: rec, live: live(t, rec)}, api.ForkRequest{Name: "copy", Labels: map[string]string{"a": "", "c": "3"}})
	if err != nil {
		t.Fatal(err)
	}
	got := child.record()
	if got.Task || !got.Limits.Pause || got.Limits.Wall != 1 || got.Seed != rec.Seed || got.Box.Name != "copy" || *got.Box.Parent != rec.Box.ID {
		t.Errorf("%+v", got)
	}
	if !maps.Equal(got.Box.Labels, map[string]string{"b": "2", "c": "3"}) || len(rec.Box.Labels) != 2 {
		t.Errorf("labels %v", got.Box.Labels)
	}
	if onDisk, err := readRecord(got.names(h).Record()); err != nil || onDisk.Task || onDisk.Phase != phaseNew {
		t.Errorf("%+v, %v", onDisk, err)
	}
}

// live is a place of a box in which nothing runs.
func live(t *testing.T, rec record) place.Place {
	t.Helper()
	p, err := (&placetest.Fake{Dir: t.TempDir()}).Create(t.Context(), rec.spec(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
