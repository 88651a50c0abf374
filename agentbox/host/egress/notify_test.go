package egress

import (
	"context"
	"slices"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// A box whose machine has ended meanwhile has nothing to which its policy could be applied: that is
// no failure, and it did not get the policy either.
func TestEndedBoxIsNotNotified(t *testing.T) {
	boxes := running{{name: "goes-on", runs: true}, {name: "ends"}}
	e := New(Config{Boxes: boxes})
	defer e.Close()
	if told := e.Notify(t.Context(), nil, nil); !slices.Equal(told, []string{"goes-on"}) {
		t.Errorf("told %q", told)
	}
}

// running are boxes that were running a moment ago.
type running []runningBox

func (r running) Running() []Box {
	var out []Box
	for _, b := range r {
		out = append(out, b)
	}
	return out
}

func (r running) Find(context.Context, api.BoxRef) (agentbox.BoxID, Subject, error) {
	return agentbox.BoxID{}, Subject{}, nil
}

func (r running) SetApproved(_, _, _ string) error { return nil }

type runningBox struct {
	name string
	runs bool
}

func (r runningBox) Name() string                        { return r.name }
func (r runningBox) Subject() Subject                    { return Subject{} }
func (r runningBox) Apply(context.Context) error         { return nil }
func (r runningBox) IsRunning() bool                     { return r.runs }
func (r runningBox) AuditLogFailed(context.Context) bool { return false }
func (r runningBox) Stop() error                         { return nil }
