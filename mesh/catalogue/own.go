package catalogue

import (
	"crypto/ed25519"

	"agentbox/agentbox"
)

// Head is that of our own catalogue.
func (s *Store) Head() Head { return s.catalogueOf(s.self).head }

// Update changes our own catalogue: change is called once, with a lock held, and all its changes
// become visible at once. When Update returns, they are on disk, so that a restart does not undo
// them, and announced. A change that exceeds the bounds is an error (NoSpace, Invalid) and has no
// effect. One without an effect is not announced. Unavailable after Close.
func (s *Store) Update(change func(*Edit)) error {
	s.editing.Lock()
	defer s.editing.Unlock()
	if s.ctx.Err() != nil {
		return agentbox.Errorf(agentbox.Unavailable, "this machine's part in the team has ended")
	}
	s.mu.Lock()
	own, team := s.own, s.list.Team()
	s.mu.Unlock()
	next, err := own.edit(change)
	if err != nil || next == nil {
		return err
	}
	return s.publish(next, team)
}

// publish signs, stores and announces a set of our own. The caller holds s.editing.
func (s *Store) publish(next *set, team agentbox.Digest) error {
	next.head = next.head.sign(headDomain, team, s.cfg.Key)
	if next.extraHead.Sequence == next.head.Sequence {
		next.extraHead = next.extraHead.sign(extraDomain, team, s.cfg.Key)
	}
	if err := s.write(next, true); err != nil {
		return agentbox.Errorf(agentbox.Unavailable, "keep this machine's catalogue: %w", err)
	}
	s.mu.Lock()
	s.own = next
	s.mu.Unlock()
	if s.cfg.Announce != nil {
		s.cfg.Announce(next.head)
	}
	return nil
}

// skipUsedNumbers gets a head of ours that somebody has. If it is newer than ours, as after our
// disk was restored from a backup, we continue after its number.
func (s *Store) skipUsedNumbers(h Head) error {
	s.editing.Lock()
	defer s.editing.Unlock()
	s.mu.Lock()
	own, team := s.own, s.list.Team()
	s.mu.Unlock()
	if h.Sequence < own.head.Sequence || h.Sequence == own.head.Sequence && h.Digest == own.head.Digest {
		return nil
	}
	if err := h.verify(headDomain, team, s.cfg.Key.Public().(ed25519.PublicKey)); err != nil {
		s.counters.Refused.Add(1)
		return err
	}
	// Others have other records under older numbers, so no difference to these can be given.
	next := &set{head: Head{Sequence: h.Sequence + 1, Digest: own.head.Digest}, records: own.records, floor: h.Sequence + 1, extra: own.extra}
	if own.extraHead.Sequence > 0 {
		if err := next.headExtra(); err != nil {
			return err
		}
	}
	s.cfg.Log.Warn("mesh: others know a newer catalogue of this machine, going on after it", "sequence", h.Sequence)
	return s.publish(next, team)
}
