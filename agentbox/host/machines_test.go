package host

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/agentbox/host/egress"
	"agentbox/agentbox/place"
	"agentbox/tools/suites/placetest"
)

// fakePolicies governs every machine in the same way.
type fakePolicies struct{ why error }

func (f fakePolicies) Enforce(ctx context.Context, m egress.Machine, _ egress.Subject) error {
	return m.ApplyPolicy(ctx, func() (place.Policy, error) { return place.Policy{}, f.why })
}
func (fakePolicies) Limits(s egress.Subject) (place.Limits, error) { return s.Limits, nil }
func (fakePolicies) Placeholders(context.Context, egress.Subject) map[string]string {
	return map[string]string{"TOKEN": "placeholder"}
}
func (fakePolicies) Packages(context.Context, string) (env, files map[string]string) {
	return map[string]string{"A": "package's", "PIP": "there"}, nil
}

// newTestMachines are machines of a home whose places are a fake's.
func newTestMachines(t *testing.T, h home.Home, why error) (*machines, *placetest.Fake) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	fake := &placetest.Fake{Dir: t.TempDir()}
	return &machines{home: h, disk: diskOf(h, fake), policies: fakePolicies{why}, log: slog.New(slog.DiscardHandler), ctx: ctx, running: &running}, fake
}

// diskOf is the disk of a home whose boxes are all of one kind.
func diskOf(h home.Home, kind place.Kind) disk {
	return disk{h, func(agentbox.Isolation) (place.Kind, error) { return kind, nil }}
}

// A machine that becomes a box as it starts has its policy before anything of the box runs, and is
// told what the box is.
func TestPolicyBeforeAttach(t *testing.T) {
	h := newHome(t)
	rec := newTestRecord("mine")
	write(t, h, rec)
	m, fake := newTestMachines(t, h, nil)
	b := &box{rec: rec}
	complete := func() error {
		if got := fake.Calls(); !slices.Equal(got, []string{"policy"}) {
			t.Errorf("before the workspace is complete: %v", got)
		}
		return nil
	}
	var at *place.Identity
	fake.OnStart = func(_ place.Spec, as *place.Identity) error { at = as; return nil }
	if err := m.start(t.Context(), b, launch{complete: complete}, nil); err != nil {
		t.Fatal(err)
	}
	if got := fake.Calls(); !slices.Equal(got, []string{"start"}) || b.place() == nil {
		t.Errorf("%v; live %v", got, b.place() != nil)
	}
	if at == nil || at.Hostname != "mine" || at.Env["A"] != "b" || at.Env["PIP"] != "there" || at.Env["TOKEN"] != "placeholder" {
		t.Errorf("attached %+v", at)
	}
}

// A machine of the pool is nobody's: it has no policy, and does not become a box.
func TestPooledMachineHasNoPolicy(t *testing.T) {
	h := newHome(t)
	rec := newTestRecord("")
	rec.Phase = phasePool
	write(t, h, rec)
	m, fake := newTestMachines(t, h, nil)
	var at *place.Identity
	fake.OnStart = func(_ place.Spec, as *place.Identity) error { at = as; return nil }
	b := &box{rec: rec}
	if err := m.start(t.Context(), b, launch{}, nil); err != nil {
		t.Fatal(err)
	}
	err := m.applyPolicy(t.Context(), b)
	if got := fake.Calls(); err != nil || !slices.Equal(got, []string{"start"}) || at != nil {
		t.Errorf("%v, attached %v, %v", got, at, err)
	}
}

// Whatever is not to be had before a machine is a box, the machine goes.
func TestFailedAttachStopsMachine(t *testing.T) {
	no := errors.New("no")
	for name, c := range map[string]struct {
		policy, workspace error
		asked             []string
	}{
		"no policy":    {no, nil, []string{"stop"}},
		"no workspace": {nil, no, []string{"policy", "stop"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			rec := newTestRecord("mine")
			write(t, h, rec)
			m, asked := newTestMachines(t, h, c.policy)
			b := &box{rec: rec}
			err := m.start(t.Context(), b, launch{complete: func() error { return c.workspace }}, nil)
			if got := asked.Calls(); !errors.Is(err, no) || !slices.Equal(got, c.asked) || b.place() != nil {
				t.Errorf("%v, asked %v, live %v", err, got, b.place() != nil)
			}
		})
	}
}

// A machine can end between its start and the next thing that is asked of it, and the daemon goes
// on.
func TestAttachEndedPooledMachine(t *testing.T) {
	h := newHome(t)
	m, _ := newTestMachines(t, h, nil)
	if err := m.park(t.Context(), &box{rec: newTestRecord("")}); agentbox.CodeOf(err) != agentbox.Unavailable {
		t.Errorf("%v", err)
	}
}
