package environment

import (
	"context"
	"io"
	"strings"
	"testing"

	"agentbox/agentbox"
)

// A box's shell is what its image has under that name, and what it prints is held in memory.
func TestHomeIsBounded(t *testing.T) {
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
		{"/" + strings.Repeat("a", 2*maxHome), 0, "", agentbox.Conflict},
	} {
		home, err := Home(t.Context(), "agent", func(_ context.Context, cmd Command) (Status, error) {
			_, err := io.WriteString(cmd.Stdout, c.says)
			return Status{Code: c.code}, err
		})
		if home != c.home || agentbox.CodeOf(err) != c.err {
			t.Errorf("%.20q, exit %d: %.20q, %v", c.says, c.code, home, err)
		}
	}
}
