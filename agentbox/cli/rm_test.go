package cli

import (
	"testing"

	"agentbox/agentbox"
)

func TestEveryLossIsNamed(t *testing.T) {
	clean, a, b := doomed{name: "clean"}, doomed{name: "a", loss: "box a has work"}, doomed{name: "b", loss: "box b has work"}
	for _, c := range []struct {
		boxes         []doomed
		message, hint string
	}{
		{[]doomed{a}, "box a has work",
			"git fetch a brings its commits here, agentbox cp a:/workspace DIR copies all its files; agentbox rm --force a removes it all the same"},
		{[]doomed{clean, a}, "box a has work",
			"git fetch a brings its commits here, agentbox cp a:/workspace DIR copies all its files; agentbox rm --force clean a removes them all the same"},
		{[]doomed{a, clean, b}, "box a has work; box b has work",
			"git fetch BOX brings its commits here, agentbox cp BOX:/workspace DIR copies all its files; agentbox rm --force a clean b removes them all the same"},
	} {
		if e := agentbox.AsError(losses(c.boxes)); e.Message != c.message || e.Hint != c.hint {
			t.Errorf("%+v: %q, %q", c.boxes, e.Message, e.Hint)
		}
	}
	if err := losses([]doomed{clean}); err != nil {
		t.Error(err)
	}
}
