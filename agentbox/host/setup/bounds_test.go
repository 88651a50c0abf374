package setup

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/environment"
)

// A box's shell is what its image has under that name, and what it prints is held in memory.
func TestQueryHomeIsBounded(t *testing.T) {
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
		home, err := queryHome(t.Context(), "agent", func(_ context.Context, cmd environment.Command) (environment.Status, error) {
			_, err := io.WriteString(cmd.Stdout, c.says)
			return environment.Status{Code: c.code}, err
		})
		if home != c.home || agentbox.CodeOf(err) != c.err {
			t.Errorf("%.20q, exit %d: %.20q, %v", c.says, c.code, home, err)
		}
	}
}

// What setup prints is kept in a file of this host, again at each start: a box must not fill the
// disk with it.
func TestSetupLogIsBounded(t *testing.T) {
	b := Box{Dir: t.TempDir()}
	for range 3 {
		log, err := openLog(b)
		if err != nil {
			t.Fatal(err)
		}
		piece := []byte(strings.Repeat("x", 1<<20))
		for range 2 * maxLog >> 20 {
			if n, err := log.Write(piece); n != len(piece) || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
		if info, err := os.Stat(filepath.Join(b.Dir, setupLog)); err != nil || info.Size() > 2*maxLog {
			t.Errorf("%d bytes, %v", info.Size(), err)
		}
	}
}
