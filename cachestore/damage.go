package cachestore

import (
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/cachestore/index"
)

// damage removes a claim that does not hold, records the damage, and returns the error for the
// reader: Corrupt. An error of the disk that says nothing about the bytes is returned as it is, and
// nothing is removed. If the claim has changed meanwhile nothing is recorded, and the error is the
// same: the caller reads again or gives up.
func (s *Store) damage(d agentbox.Digest, p index.Location, why error) error {
	if !lostBytes(why) {
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
		if s.cfg.Damaged != nil {
			s.cfg.Damaged(dmg)
		}
	}
	return agentbox.Errorf(agentbox.Corrupt, "%s in %s at %d is damaged: %w", d.Short(), file, p.Off, why).
		WithHint("it has been put aside; agentbox cache verify repairs what another copy can be found of")
}

// unclaim removes the claim unless it has changed meanwhile, and with it the mark that the image it
// lay in is whole. It tells whether it did.
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
		if err := s.notWhole(&b, p.File); err != nil {
			return false, err
		}
	}
	return true, s.index.Apply(&b)
}

// notWhole says that an image file lacks a chunk, so that File hashes and completes it again.
// Callers hold metaMu.
func (s *Store) notWhole(b *index.Batch, file uint64) error {
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

// Damaged lists what is damaged and has not been got again, in no order.
func (s *Store) Damaged() []Damage { return s.quarantine.damaged() }
