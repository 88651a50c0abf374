package cachestore

import (
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/cachestore/index"
)

// damage removes a claim that does not hold, records the damage, and returns an error of code
// Corrupt for the reader. It returns an error of the disk that says nothing about the bytes
// unchanged, and removes nothing. If the claim has changed meanwhile, it records nothing but
// returns the same error: the caller reads again or gives up.
func (s *Store) damage(d agentbox.Digest, p index.Location, why error) error {
	if !isDataLost(why) {
		return s.hostError(why)
	}
	gone, err := s.unclaim(d, p)
	if err != nil {
		return err
	}
	file, _ := filepath.Rel(s.cfg.Dir, s.handles.path(keyOf(p)))
	if gone {
		dmg := Damage{Digest: d, File: file, Offset: p.Off, Bytes: int64(p.Stored), Why: why.Error(), Found: s.cfg.Now().UTC()}
		if p.Image {
			dmg.Image = p.File
			dmg.Of, _ = s.handles.imageOf(p.File)
		}
		s.log.Error("store: damage", "chunk", d.Short(), "file", file, "offset", p.Off, "error", why)
		if err := s.quarantine.add(dmg); err != nil {
			return err
		}
		if s.cfg.OnDamage != nil {
			s.cfg.OnDamage(dmg)
		}
	}
	return agentbox.Classify(agentbox.Corrupt, "%s in %s at %d is damaged: %w", d.Short(), file, p.Off, why).
		WithHint("it is quarantined; agentbox cache verify repairs it if another copy can be found")
}

// unclaim removes a claim and the mark that its image file is complete. It returns false if the
// claim has changed meanwhile.
func (s *Store) unclaim(d agentbox.Digest, p index.Location) (bool, error) {
	s.metaMu.Lock()
	defer s.metaMu.Unlock()
	now, ok, err := s.index.Chunk(d)
	if err != nil || !ok || now != p {
		return false, err
	}
	var b index.Batch
	b.DropChunk(d)
	if p.Image {
		if err := s.markIncomplete(&b, p.File); err != nil {
			return false, err
		}
	}
	return true, s.index.Apply(&b)
}

// markIncomplete records that an image file lacks a chunk, so that File hashes and completes it
// again. Callers hold metaMu.
func (s *Store) markIncomplete(b *index.Batch, file uint64) error {
	owner, ok := s.handles.imageOf(file)
	if !ok {
		return nil
	}
	s.checked.Delete(owner)
	m, ok, err := s.index.Meta(owner)
	if err != nil || !ok || !m.Whole || m.File != file {
		return err
	}
	m.Whole = false
	return b.SetMeta(owner, m)
}

// Damaged lists the damage that is not repaired yet, in any order.
func (s *Store) Damaged() []Damage { return s.quarantine.damaged() }
