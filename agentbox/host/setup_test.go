package host

import (
	"testing"
)

// A hint names nothing that does not help: start runs again at a start only, and the box of a run
// is gone.
func TestHintOfAFailedCommand(t *testing.T) {
	rec := aBox("mine")
	for step, want := range map[string]string{
		"setup": "the box is there: agentbox shell mine; agentbox up tries again",
		"start": "the box is there: agentbox shell mine; agentbox reset tries again",
	} {
		if got := hintOf(step, rec); got != want {
			t.Errorf("%s: %q", step, got)
		}
	}
	rec.Task = true
	if got := hintOf("start", rec); got != "agentbox up makes a box that stays, to look into" {
		t.Error(got)
	}
}
