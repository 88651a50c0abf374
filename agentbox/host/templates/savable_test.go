package templates

import (
	"strings"
	"testing"

	"agentbox/agentbox"
)

// A box that was booted cannot be saved, and its user is told what makes it like other boxes.
func TestBootedMachineIsNotSavable(t *testing.T) {
	var all Templates
	err := all.CheckSavable(t.Context(), Machine{Box: "mine"}, "", "paused")
	if e := agentbox.AsError(err); agentbox.CodeOf(err) != agentbox.Conflict || !strings.Contains(e.Message, "box mine cannot be paused") || !strings.Contains(e.Hint, "agentbox reset mine") {
		t.Errorf("%+v", err)
	}
}
