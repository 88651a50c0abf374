package bench

import (
	"slices"
	"testing"

	"agentbox/agentbox"
)

// doctor says that ssh works wherever the program is, and a benchmark has no machine for it.
func TestKindsAreOfThisMachine(t *testing.T) {
	got := ofThisMachine([]agentbox.Isolation{agentbox.GVisor, agentbox.Container, agentbox.SSH})
	if !slices.Equal(got, []agentbox.Isolation{agentbox.GVisor, agentbox.Container}) {
		t.Errorf("%v", got)
	}
}
