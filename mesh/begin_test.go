package mesh

import (
	"log/slog"
	"sync"
	"testing"

	"agentbox/tools/suites/meshtest"
)

// TestStatusDuringInit is for the race detector: what a person asks must not see a
// machine's part in a team half made.
func TestStatusDuringInit(t *testing.T) {
	m, err := Open(Config{Dir: t.TempDir(), Key: meshtest.Key(t), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	begun := make(chan struct{})
	var asking sync.WaitGroup
	ask := func() {
		for {
			s := m.Status()
			select {
			case <-begun:
				return
			default:
			}
			if len(s.Counters) > 0 && s.Team.IsZero() {
				t.Error("it counts what happens in no team")
				return
			}
		}
	}
	for range 4 {
		asking.Go(ask)
	}
	err = m.Init("first", "127.0.0.1:0")
	close(begun)
	asking.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if s := m.Status(); s.Members != 1 || s.Counters == nil {
		t.Errorf("%+v", s)
	}
}
