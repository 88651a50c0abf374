package handover

import (
	"testing"

	"agentbox/agentbox"
)

// A task that ends is looked for among those that others may enter at once: the team would miss it for
// as long as the list is kept.
func TestOneEnded(t *testing.T) {
	one, two := &agentbox.Task{ID: agentbox.TaskID{1}}, &agentbox.Task{ID: agentbox.TaskID{2}}
	both := []*agentbox.Task{one, two}
	for _, c := range []struct {
		before, now []*agentbox.Task
		want        bool
	}{
		{nil, both, false},
		{both, both, false},
		{both, []*agentbox.Task{two, one}, false},
		{both[:1], both, false},
		{both, both[:1], true},
		{both, nil, true},
		{both[:1], []*agentbox.Task{two}, true},
	} {
		if got := oneEnded(c.before, c.now); got != c.want {
			t.Errorf("%v, then %v: %v", c.before, c.now, got)
		}
	}
}
