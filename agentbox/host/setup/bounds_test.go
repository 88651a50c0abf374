package setup

import (
	"context"
	"io"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/environment"
)

// A box's shell is what its image has under that name, and what it prints is held in memory.
func TestTheHomeOfABoxIsBounded(t *testing.T) {
	for _, c := range []struct {
		says string
		code int
		home string
		err  agentbox.Code
	}{
		{"/home/agent", 0, "/home/agent", ""},
		{"/home/agent", 1, "", agentbox.Conflict},
		{"", 0, "", agentbox.Conflict},
		{"home", 0, "", agentbox.Conflict},
		{"/" + strings.Repeat("a", 2*mostHome), 0, "", agentbox.Conflict},
	} {
		home, err := homeIn(t.Context(), "agent", func(_ context.Context, cmd environment.Command) (environment.Status, error) {
			_, err := io.WriteString(cmd.Stdout, c.says)
			return environment.Status{Code: c.code}, err
		})
		if home != c.home || agentbox.CodeOf(err) != c.err {
			t.Errorf("%.20q, exit %d: %.20q, %v", c.says, c.code, home, err)
		}
	}
}
