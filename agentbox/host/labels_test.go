package host

import (
	"errors"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

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
