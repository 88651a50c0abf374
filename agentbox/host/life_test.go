package host

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/place/local/supervisors"
	"agentbox/agentbox/place/local/supervisors/supervisortest"
)

// A supervisor that ends under any call leaves an error that says why, and what to do, also if it
// leaves that after it has stopped to answer; and the reason stays there for who writes it down.
func TestCallToDyingSupervisorExplainsExit(t *testing.T) {
	for _, c := range []struct {
		name, exit, want string
		cause            agentbox.Cause
	}{
		{"killed", "", "ended", agentbox.EndKilled},
		{"limited", `{"end":{"cause":"limit","limit":"wall 10s"}}`, "ended", agentbox.EndLimit},
		{"full", `{"end":{"cause":"failed"},"reason":{"code":"no_space","message":"the disk is full","hint":"free some"}}`, "the disk is full", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHome(t)
			rec := newTestRecord("mine")
			names := write(t, h, rec)
			_, let, _ := supervisortest.Hold(t, names.Lock(), supervisortest.Itself)
			hangUp(t, names.Control())
			sup, err := supervisors.Adopt(t.Context(), names, func(f func()) { go f() })
			if err != nil {
				t.Fatal(err)
			}
			said := make(chan error, 1)
			go func() { said <- (&box{rec: rec, sup: sup}).renew(t.Context()) }()
			if c.exit != "" {
				if err := os.WriteFile(filepath.Join(names.Dir, "exit.json"), []byte(c.exit), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			let()
			err = <-said
			if e := agentbox.AsError(err); err == nil || !strings.Contains(e.Message, c.want) || e.Hint == "" || (e.End != nil) != (c.cause != "") || e.End != nil && e.End.Cause != c.cause {
				t.Errorf("%+v", err)
			}
			if _, ok, err := sup.Exit(); ok != (c.exit != "") {
				t.Errorf("what it left: %v, %v", ok, err)
			}
		})
	}
}

// hangUp listens at a socket and reads one call of each connection before it closes it.
func hangUp(t *testing.T, socket string) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4<<10))
			_ = c.Close()
		}
	}()
}
