package catalogue

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// Bounds of messages, in bytes, and times. From a peer that changes its catalogue ten times a
// second we fetch three times a second.
const (
	maxRequest = 1 << 10
	maxDelta   = MaxBytes*3/2 + 1<<20 // with removals, keys of the JSON around it, and the head
	maxExtra   = maxExtraBytes + 64<<10
	maxHeads   = 2 << 20
	fetchTime  = 15 * time.Second
	fetchPause = 300 * time.Millisecond // between two fetches of one catalogue
	askPause   = time.Second            // until those who are here are asked, doubled each time
	headsTime  = 30 * time.Second       // between two exchanges of heads with somebody
	maxExtras  = 16                     // fetched for the sake of an Extra in one of these
)

// request is the first message on a stream of the catalogue service.
type request struct {
	Owner identity.PeerID `json:"owner,omitzero"` // whose catalogue; zero: all heads
	Since uint64          `json:"since,omitempty"`
	Extra uint64          `json:"extra,omitempty"` // the sequence number of the Extra that the reader has
}

// fetchTarget is a catalogue of which something newer exists, which fetchUntilNewest is fetching.
// from are peers that have it, in the order in which they are asked.
type fetchTarget struct {
	sequence uint64
	from     []identity.PeerID
}

// ObserveSequence is called when a peer has a catalogue of an owner at a sequence number. What is
// newer than ours is fetched in the background, from the owner if it is here. Nobody has proved the
// number: it only makes us ask.
func (s *Store) ObserveSequence(owner identity.PeerID, sequence uint64, from identity.PeerID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if owner == s.self || s.ctx.Err() != nil || sequence <= s.sequence(owner) || !s.list.Admits(owner, time.Now()) {
		return
	}
	w := s.pending[owner]
	if w == nil {
		w = &fetchTarget{}
		s.pending[owner] = w
		s.tasks.Go(func() { s.fetchUntilNewest(owner) })
	}
	w.sequence = max(w.sequence, sequence)
	if from == owner {
		w.from = slices.Insert(w.from, 0, from)
	} else {
		w.from = append(w.from, from)
	}
	w.from = w.from[:min(len(w.from), 8)]
}

// sequence is what is known of an owner. The caller holds s.mu.
func (s *Store) sequence(owner identity.PeerID) uint64 {
	if got := s.peers[owner]; got != nil {
		return got.head.Sequence
	}
	return 0
}

// fetchUntilNewest fetches the catalogue of an owner until nothing newer of it is known to exist.
// When the peers that said so cannot provide it (a daemon announces a change and restarts), it asks
// the owner and others that are here: gossip announces a change once, and the next exchange of
// heads may be far off.
func (s *Store) fetchUntilNewest(owner identity.PeerID) {
	pause := askPause
	for from, wanted := s.next(owner); wanted; from, wanted = s.next(owner) {
		wait := fetchPause
		if from.IsZero() {
			wait = pause
			pause = min(2*pause, headsTime)
		} else {
			s.tryFetch(owner, from)
		}
		background.Sleep(s.ctx, wait)
		if from.IsZero() {
			s.askOthers(owner)
		}
	}
}

// next returns the peer to ask for an owner's catalogue, zero when all were asked; false when
// nothing newer is wanted.
func (s *Store) next(owner identity.PeerID) (from identity.PeerID, wanted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.pending[owner]
	if w.sequence <= s.sequence(owner) || s.ctx.Err() != nil || !s.list.Admits(owner, time.Now()) {
		delete(s.pending, owner)
		return identity.PeerID{}, false
	}
	if len(w.from) > 0 {
		from = w.from[0]
		w.from = slices.DeleteFunc(w.from, func(p identity.PeerID) bool { return p == from })
	}
	return from, true
}

// askOthers adds the owner, if it is here, and some others to those that are asked, three in all.
// Others may have fetched it before the owner left.
func (s *Store) askOthers(owner identity.PeerID) {
	here := slices.DeleteFunc(s.cfg.OnlinePeers(), func(p identity.PeerID) bool { return p == s.self })
	rand.Shuffle(len(here), func(i, j int) { here[i], here[j] = here[j], here[i] })
	if i := slices.Index(here, owner); i > 0 {
		here[0], here[i] = here[i], here[0]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.pending[owner]
	w.from = append(w.from, here[:min(len(here), 3)]...)
}

// tryFetch is fetch within fetchTime. It counts failures.
func (s *Store) tryFetch(owner, from identity.PeerID) {
	ctx, cancel := context.WithTimeout(s.ctx, fetchTime)
	defer cancel()
	if err := s.fetch(ctx, owner, from); err != nil {
		s.counters.Failed.Add(1)
		s.cfg.Log.Info("mesh: a catalogue was not fetched", "owner", owner.Short(), "from", from.Short(), "error", err)
	}
}

// fetch gets what a peer has of an owner's catalogue: the difference first, and once the whole, if
// the difference does not lead to what the owner signed.
func (s *Store) fetch(ctx context.Context, owner, from identity.PeerID) error {
	c, err := s.cfg.Node.Dial(ctx, from, wire.Catalogue)
	if err != nil {
		return err
	}
	defer c.Close()
	s.mu.Lock()
	since, extra := s.sequence(owner), s.extraSequence(owner)
	s.mu.Unlock()
	for {
		var d Delta
		err := c.Ask(ctx, request{Owner: owner, Since: since, Extra: extra}, &d, maxDelta)
		if err == nil {
			err = s.accept(owner, d)
		}
		if since == 0 || d.Since == 0 || agentbox.CodeOf(err) != agentbox.Corrupt {
			return err
		}
		since = 0
	}
}

// accept applies a delta to a catalogue, if its owner signed it and it is newer. It is verified
// without the lock, as that hashes all of it, so the catalogue may have changed meanwhile: then the
// answer that came first stays.
func (s *Store) accept(owner identity.PeerID, d Delta) error {
	old := s.catalogueOf(owner)
	next, err := s.applyVerified(old, d, owner)
	if err != nil {
		s.counters.Refused.Add(1)
		return err
	}
	if taken, err := s.replace(owner, old, next); !taken {
		return err
	}
	s.changed(owner)
	if err := s.write(next, false); err != nil {
		return err
	}
	s.mu.Lock()
	gone := isFormer(s.list, owner)
	s.mu.Unlock()
	if gone { // Admit came between, and found no file to remove
		return s.removeFile(owner)
	}
	return nil
}

// replace replaces old, nil for nothing, as what is known of an owner, if next is newer. False
// without an error: there is nothing to do.
func (s *Store) replace(owner identity.PeerID, old, next *set) (taken bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.sequence(owner)
	switch {
	case s.peers[owner] != old, !s.list.Admits(owner, time.Now()):
		return false, nil
	case next.head.Sequence < known:
		s.counters.RolledBack.Add(1)
		return false, corrupt("the catalogue of %s is older than what is known", owner.Short())
	case next.head.Sequence == known && (old == nil || next.head.Digest != old.head.Digest || next.extraHead.Sequence <= old.extraHead.Sequence):
		if old != nil && next.head.Digest != old.head.Digest {
			s.counters.Forked.Add(1)
			s.cfg.Log.Warn("mesh: a peer signed two catalogues of one number", "peer", owner.Short(), "sequence", known)
		}
		return false, nil
	}
	s.counters.Fetched.Add(1)
	s.set(owner, next)
	return true, nil
}

// Exchange asks a peer which catalogues it has, within fetchTime, and fetches what is new. That is
// how those of sleeping peers spread.
func (s *Store) Exchange(ctx context.Context, from identity.PeerID) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	c, err := s.cfg.Node.Dial(ctx, from, wire.Catalogue)
	if err != nil {
		return err
	}
	defer c.Close()
	var theirs heads
	if err := c.Ask(ctx, request{}, &theirs, maxHeads); err != nil {
		return err
	}
	extras := 0
	for _, h := range theirs {
		switch {
		case h.Owner == s.self:
			err = s.skipUsedNumbers(h)
		case s.lacksExtra(h) && extras < maxExtras:
			extras++
			s.fetchExtra(ctx, c, h.Owner)
		default:
			err = s.onHead(h, from)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fetchExtra asks a peer for an Extra alone. It may fail: the number that made us ask is not signed.
func (s *Store) fetchExtra(ctx context.Context, c *wire.Conn, owner identity.PeerID) {
	s.mu.Lock()
	q := request{Owner: owner, Since: s.sequence(owner), Extra: s.extraSequence(owner)}
	s.mu.Unlock()
	var d Delta
	err := c.Ask(ctx, q, &d, maxExtra)
	if err == nil {
		err = s.accept(owner, d)
	}
	if err != nil {
		s.counters.Failed.Add(1)
		s.cfg.Log.Info("mesh: records of later kinds were not fetched", "owner", owner.Short(), "from", c.Peer().Short(), "error", err)
	}
}

// lacksExtra reports whether we have the catalogue of a head, but without the Extra that whoever
// showed it has: it came from a build that does not pass it on. The number is not signed, so it
// makes us ask once and no more.
func (s *Store) lacksExtra(h Head) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.Sequence > 0 && h.Sequence == s.sequence(h.Owner) && h.Extra > s.extraSequence(h.Owner) && s.list.Admits(h.Owner, time.Now())
}

// onHead is ObserveSequence for a head that a peer showed. Only heads that their owner signed are
// fetched: otherwise any member could make us look forever for a number that nobody used.
func (s *Store) onHead(h Head, from identity.PeerID) error {
	s.mu.Lock()
	m, _ := s.list.Member(h.Owner)
	team, known := s.list.Team(), h.Sequence <= s.sequence(h.Owner)
	s.mu.Unlock()
	if known || !m.Active(time.Now()) {
		return nil
	}
	if err := h.verify(headDomain, team, m.Key); err != nil {
		s.counters.Refused.Add(1)
		return err
	}
	s.ObserveSequence(h.Owner, h.Sequence, from)
	return nil
}

// Run exchanges heads with a random peer now and then, until ctx is done: gossip announces each
// change once, and this finds what was missed.
func (s *Store) Run(ctx context.Context) {
	tick := time.NewTicker(headsTime)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if here := s.cfg.OnlinePeers(); len(here) > 0 {
			peer := here[rand.IntN(len(here))]
			if err := s.Exchange(ctx, peer); err != nil {
				s.cfg.Log.Info("mesh: heads were not exchanged", "peer", peer.Short(), "error", err)
			}
		}
	}
}
