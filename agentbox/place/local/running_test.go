package local

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/agentbox/place"
	"agentbox/tools/suites/supervisortest"
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
			h := home.Home{Dir: t.TempDir()}
			if err := h.Create(); err != nil {
				t.Fatal(err)
			}
			id := agentbox.NewBoxID()
			names := h.Box(id)
			if err := errors.Join(os.MkdirAll(names.Dir, 0o700), os.MkdirAll(names.Run, 0o700)); err != nil {
				t.Fatal(err)
			}
			_, let, _ := supervisortest.Hold(t, names.Lock(), supervisortest.Itself)
			hangUp(t, names.Control())
			k := kind{Local: &Local{Home: h, Context: t.Context(), Go: func(f func()) { go f() }, Log: slog.New(slog.DiscardHandler)}}
			p, err := k.Recover(t.Context(), place.Spec{ID: id})
			if err != nil {
				t.Fatal(err)
			}
			said := make(chan error, 1)
			go func() { said <- p.(place.Leaser).Renew(t.Context(), time.Hour) }()
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
			if _, known := p.End(); known != (c.exit != "") {
				t.Errorf("what it left: %v", known)
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

func TestMain(m *testing.M) { supervisortest.Main(m) }
