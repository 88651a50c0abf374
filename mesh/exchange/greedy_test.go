package exchange

import (
	"context"
	"io"
	"net"
	"testing"
)

// One peer opens more sessions than there are for all peers together, and reads none of them.
// Another peer is served all the same.
func TestSessionsPerPeerAreLimited(t *testing.T) {
	t.Parallel()
	o := newTestNetwork(t)
	seed, greedy, modest := o.machine(1), PeerID{2}, o.machine(3)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for size := range maxSessions + 1 {
		d, mf, chunks := someBlob(1, size+1)
		seed.give(d, mf, chunks, 0)
		here, there := net.Pipe()
		defer here.Close()
		o.work.Go(func() { _ = seed.Serve(ctx, greedy, there) })
		if _, err := here.Write(opening(d)); err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadFull(here, make([]byte, headerSize)) // the welcome, or the end of a refused one
	}
	d, mf, chunks := someBlob(3, 5000)
	seed.give(d, mf, chunks, upTo(3)...)
	if _, err := modest.fetch(d, mf); err != nil {
		t.Fatal(err)
	}
	modest.whole(mf)
	if n := seed.Sessions(); n < 2 || n > maxPeerSessions+1 {
		t.Errorf("%d sessions, of which %d may be the greedy peer's", n, maxPeerSessions)
	}
}

// A peer that opens one session too many loses the one that was idle for longest, not the newest.
func TestLongestIdleSessionIsClosed(t *testing.T) {
	t.Parallel()
	n := newTestNetwork(t).machine(1).Node
	var all []*session
	for i := range maxPeerSessions + 1 {
		d, _, _ := someBlob(1, i+1)
		_, there := net.Pipe()
		s, err := n.register(PeerID{2}, there, d, false)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	if all[0].ctx.Err() == nil || n.Sessions() != maxPeerSessions {
		t.Errorf("the oldest session is open, as one of %d", n.Sessions())
	}
	for i, s := range all[1:] {
		if s.ctx.Err() != nil {
			t.Errorf("session %d has ended", i+1)
		}
	}
}
