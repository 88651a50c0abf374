package host

import (
	"context"
	"errors"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/place"
)

// askedPlace counts how often it was asked how it is.
type askedPlace struct {
	place.Place
	asked int
}

func (p *askedPlace) Status(ctx context.Context, q place.Question) (place.Status, error) {
	p.asked++
	return p.Place.Status(ctx, q)
}

// Who looks for a box asks none of them; who looks at one does.
func TestLookingForBoxesAsksNone(t *testing.T) {
	h := newHome(t)
	rec := newTestRecord("mine")
	write(t, h, rec)
	m := manage(t, h)
	b, err := m.boxes.find(t.Context(), api.BoxRef{Box: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	p := &askedPlace{Place: live(t, rec)}
	b.set(func(b *box) { b.live = p })
	found, err := m.Find(t.Context(), api.BoxRef{Box: "mine"})
	listed, listErr := m.List(t.Context(), api.ListRequest{Known: true}, nil)
	if err != nil || listErr != nil || len(listed) != 1 || found.State != agentbox.Running || listed[0].State != agentbox.Running || p.asked != 0 {
		t.Errorf("found %+v, %v; listed %+v, %v; asked %d times", found, err, listed, listErr, p.asked)
	}
	if _, err := m.List(t.Context(), api.ListRequest{}, nil); err != nil || p.asked != 1 {
		t.Errorf("%v; asked %d times", err, p.asked)
	}
}

// A box has the bound that its machine has: a new one at once, and none that the machine does not take.
func TestBind(t *testing.T) {
	h := newHome(t)
	rec := newTestRecord("mine")
	write(t, h, rec)
	m := manage(t, h)
	b, err := m.boxes.find(t.Context(), api.BoxRef{Box: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil { // what it does by itself must not meet the test's policies
		t.Fatal(err)
	}
	b.set(func(b *box) { b.live = live(t, rec) })
	no := errors.New("no")
	const offline = "preset: offline"
	for _, test := range []struct {
		bound, want string
		machine     error
		code        agentbox.Code
	}{
		{offline, offline, nil, ""},
		{"preset: wide", offline, nil, agentbox.Invalid},
		{"", offline, no, agentbox.Internal},
		{"", "", nil, ""},
	} {
		m.machines.policies = fakePolicies{test.machine}
		_, err := Bind(m)(t.Context(), api.BindRequest{BoxRef: api.BoxRef{Box: "mine"}, Bound: test.bound}, nil)
		onDisk, readErr := readRecord(rec.names(h).Record())
		if agentbox.CodeOf(err) != test.code || errors.Is(err, no) != (test.machine != nil) || readErr != nil || onDisk.Bound != test.want || b.record().Bound != test.want {
			t.Errorf("%+v: %v; on disk %q, %v", test, err, onDisk.Bound, readErr)
		}
	}
}
