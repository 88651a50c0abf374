package mesh

import (
	"crypto/ed25519"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"agentbox/tools/suites/meshtest"
)

// TestMachinesKilledTogetherMeetAgain goes on from the files that two machines had when the second one had
// just joined, as if both had been killed then.
func TestMachinesKilledTogetherMeetAgain(t *testing.T) {
	keys := []ed25519.PrivateKey{meshtest.Key(t), meshtest.Key(t)}
	open := func(dirs []string) (all []*Mesh) {
		for i, dir := range dirs {
			m, err := Open(Config{Dir: dir, Key: keys[i], Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, m)
		}
		return all
	}
	end := func(all []*Mesh) {
		for _, m := range all {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	dirs := []string{t.TempDir(), t.TempDir()}
	all := open(dirs)
	if err := all[0].Init("first", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	_, token, err := all[0].Invite(time.Hour, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := all[1].Join(t.Context(), token, "second", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	killed := []string{filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")}
	for i, dir := range dirs {
		if err := os.CopyFS(killed[i], os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
	}
	end(all)
	all = open(killed)
	defer end(all)
	for _, m := range all {
		meshtest.Eventually(t, "the machines meet", func() bool { return len(m.OnlinePeers()) == 1 })
	}
}

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
