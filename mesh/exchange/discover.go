package exchange

import (
	"slices"
	"time"

	"agentbox/agentbox"
	"agentbox/mesh/exchange/schedule"
)

// run plans whenever something happened, and looks for peers, until the transfer ends. Only run
// asks the scheduler what to do next.
func (t *Transfer) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	looked := time.Time{}
	for {
		if time.Since(looked) > discoverEvery {
			looked = time.Now()
			t.discover()
		}
		wait := t.plan()
		timer.Reset(wait)
		select {
		case <-t.ctx.Done():
			return
		case <-t.kick:
		case <-timer.C:
		}
	}
}

// plan requests what is to be requested now, and returns how long that suffices: until the
// scheduler wants to look again, or a call may have to fail. Events before then wake run.
func (t *Transfer) plan() time.Duration {
	t.n.mu.Lock()
	defer t.n.mu.Unlock()
	now := t.now()
	t.apply(t.state.Next(now))
	t.failCalls()
	wait := discoverEvery
	if at := t.state.Wake(now); at > 0 {
		wait = at - now
	} else if len(t.calls) > 0 {
		wait = noPeerGrace / 4
	}
	return wait
}

// failCalls ends calls for which nothing more can come: no reachable peer has anything that they
// lack. A call of which some may still come continues. The caller holds mu.
func (t *Transfer) failCalls() {
	if len(t.calls) == 0 {
		return
	}
	missing := map[int]bool{}
	for _, i := range t.state.Missing() {
		missing[i] = true
	}
	for c := range t.calls {
		if !t.waitedEnough(c) {
			continue
		}
		first, all := -1, true
		for i := range c.left {
			all = all && missing[i]
			if missing[i] && (first < 0 || i < first) {
				first = i
			}
		}
		if all {
			t.finish(c, t.missingError(len(c.left), first))
		}
	}
}

// waitedEnough reports whether a call has waited long enough for peers to come. If none was ever
// there, a caller that waits for a chunk is told soon, as there may be other places to get it from.
// The caller holds mu.
func (t *Transfer) waitedEnough(c *call) bool {
	since := min(time.Since(t.changed), time.Since(c.began))
	switch {
	case t.everConnected:
		return !t.connecting() && since > peerGrace
	case c.class == schedule.Demand:
		return since > noPeerGrace
	}
	return !t.connecting() && since > noPeerGrace
}

// connecting reports whether a peer is being connected for the first time since it was there, or is
// connected and has not said yet what it has. A peer that did not answer is dialled again and
// again, and may be gone for good: nobody waits for it. The caller holds mu.
func (t *Transfer) connecting() bool {
	for p := range t.dialing {
		if t.failed[p] <= 1 {
			return true
		}
	}
	for s := range t.b.sessions {
		if s.theirs == nil && time.Since(s.began) < helloTimeout {
			return true
		}
	}
	return false
}

// missingError names what nobody has, of n pieces, and how many peers were asked.
func (t *Transfer) missingError(n, first int) error {
	peers := 0
	for _, s := range t.slots {
		if s != nil {
			peers++
		}
	}
	return agentbox.Errorf(agentbox.NotFound, "no peer that can be reached has %d of the %d pieces of %s, the first of them piece %d (%s); %s asked",
		n, len(t.b.m.Chunks), t.b.digest.Short(), first, t.b.m.Chunks[first].Digest.Short(), agentbox.Plural(peers, "peer")).
		WithHint("agentbox mesh peers shows who is absent")
}

// discover opens sessions with holders that have none yet: those that the catalogue names, and
// those that peers named. The caller does not hold mu, as the catalogue is asked.
func (t *Transfer) discover() {
	holders := t.n.cfg.Holders.Holders(t.b.digest)
	t.n.mu.Lock()
	defer t.n.mu.Unlock()
	for _, p := range append(holders, t.b.otherPeers...) {
		t.dial(p)
	}
}

// addPeers records peers that are said to have sessions about the blob. The caller holds mu.
func (b *blobState) addPeers(peers []PeerID) {
	for _, p := range peers {
		// A bound, as each of the peers may name sixty-four: what is beyond it is not missed.
		if len(b.otherPeers) < 4*maxPeersNamed && !slices.Contains(b.otherPeers, p) {
			b.otherPeers = append(b.otherPeers, p)
			if b.transfer != nil {
				b.transfer.dial(p)
			}
		}
	}
}

// dial opens a session with a peer, unless one is open or failed recently. The caller holds mu.
func (t *Transfer) dial(p PeerID) {
	if p == t.n.cfg.Self || time.Since(t.dialled[p]) < t.retryAfter(p) || time.Now().Before(t.n.banned[p]) || t.dialing[p] || len(t.b.sessions)+len(t.dialing) >= schedule.MaxPeers || t.ctx.Err() != nil {
		return
	}
	if t.b.sessionWith(p) != nil {
		return
	}
	t.dialled[p] = time.Now()
	// Counted in advance: the peer may accept the stream and end the session at once, over and
	// over.
	t.failed[p]++ // until it joins
	t.dialing[p] = true
	t.work.Go(func() {
		_, err := t.n.open(t.ctx, p, t.b.digest)
		t.n.mu.Lock()
		defer t.n.mu.Unlock()
		delete(t.dialing, p)
		if t.failed[p] <= 1 {
			t.changed = time.Now()
		}
		if err != nil {
			t.n.cfg.Log.Debug("a holder cannot be reached", "peer", p.Short(), "error", err)
		}
		t.kick.Notify()
	})
}

// retryAfter is how long a peer is left alone that did not answer or refused us. A peer that is
// only starting does so briefly.
func (t *Transfer) retryAfter(p PeerID) time.Duration {
	return min(retryFirst<<min(t.failed[p], 10), retryLast)
}

// join adds a session to those that are asked: both ends know the manifest, and the peer has said
// what it has. One too many is not asked, but serves the peer. The caller holds mu.
func (t *Transfer) join(s *session) {
	if s.joined || time.Now().Before(t.n.banned[s.peer]) {
		return
	}
	for slot := range t.slots {
		if t.slots[slot] == nil {
			s.slot, s.joined = schedule.Peer(slot), true
			t.slots[slot] = s
			t.state.Join(s.slot, s.theirs)
			t.everConnected, t.changed = true, time.Now()
			delete(t.failed, s.peer)
			t.kick.Notify()
			return
		}
	}
}

// leave removes it when the session ends, when its peer is banned, or when it announces anew what
// it has. Others are asked for what the peer was asked for. Another session may get the slot at
// once, so work under way for a session, such as a piece that is being verified, checks whether it
// is still joined.
func (t *Transfer) leave(s *session) {
	if !s.joined {
		return
	}
	s.joined = false
	t.slots[s.slot] = nil
	t.state.Leave(s.slot)
	t.changed = time.Now()
	t.kick.Notify()
}
