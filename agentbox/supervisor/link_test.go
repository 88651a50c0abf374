package supervisor

import (
	"context"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
)

// While somebody waits for a guest that says nothing, the others are told what is known: a list of
// boxes must not wait for it.
func TestASilentGuestKeepsNobodyElseWaiting(t *testing.T) {
	h := home.Home{Dir: t.TempDir()}
	names := h.Box(agentbox.NewBoxID())
	if err := h.Create(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{names.Dir, names.Run} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	ours, theirs := net.Pipe()
	defer theirs.Close()
	l, err := newLink(ours, "box", names, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	greeted := make(chan struct{})
	go func() {
		defer close(greeted)
		_, _ = l.client(ctx)
	}()
	if _, err := theirs.Read(make([]byte, 1)); err != nil { // it is being greeted
		t.Fatal(err)
	}
	told := make(chan struct{})
	go func() {
		defer close(told)
		if l.live() != nil || l.kernel() != "" {
			t.Error("there is a connection")
		}
	}()
	select {
	case <-told:
	case <-time.After(time.Minute):
		t.Error("what is known of a guest takes as long as its greeting")
	}
	cancel()
	ours.Close()
	<-greeted
}
