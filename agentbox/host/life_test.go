package host

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/host/supervisors"
)

// A supervisor that ends under any call leaves an error that says why, and what to do; and the
// reason stays there for who writes it down.
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
			exit := filepath.Join(names.Dir, "exit.json")
			if c.exit != "" {
				if err := os.WriteFile(exit, []byte(c.exit), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			b := &box{rec: rec, sup: &supervisors.Supervisor{Client: api.NewClient(hangUp(t, names.Control())), Box: names}}
			err := b.renew(t.Context())
			if e := agentbox.AsError(err); err == nil || !strings.Contains(e.Message, c.want) || e.Hint == "" || (e.End != nil) != (c.cause != "") || e.End != nil && e.End.Cause != c.cause {
				t.Errorf("%+v", err)
			}
			if _, err := os.Stat(exit); (err == nil) != (c.exit != "") {
				t.Errorf("what it left: %v", err)
			}
		})
	}
}

// hangUp listens at a socket and reads one call of each connection before it closes it.
func hangUp(t *testing.T, socket string) string {
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
	return socket
}
