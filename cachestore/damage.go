package cachestore

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore/disk"
	"agentbox/cachestore/index"
	"agentbox/cachestore/pack"
)

// Damage is a chunk whose bytes were not those of its digest. It is out of the index; what needs it
// has to get it again. It is kept as a file until the chunk is here again or nothing needs it, so
// that a person learns of it, and of the disk that it was on, after a restart too. The bytes
// themselves are not kept.
type Damage struct {
	Digest agentbox.Digest `json:"digest"`
	// File is a path relative to the store's directory; Offset and Bytes say where in it, in bytes
	// as they lie there.
	File   string          `json:"file"`
	Offset int64           `json:"offset"`
	Bytes  int64           `json:"bytes"`
	Image  uint64          `json:"image,omitempty"` // number of the image file whose block it is
	Of     agentbox.Digest `json:"of,omitzero"`     // the image's manifest
	// Why is what was wrong, in one line, and Found when.
	Why   string    `json:"why"`
	Found time.Time `json:"found"`
}

// quarantine remembers what is damaged, so that a flush need not look for a file for each chunk
// that came. It is what quarantine/ holds.
type quarantine struct {
	mu    sync.Mutex
	known map[agentbox.Digest]Damage
}

// maxDamageFile bounds a file in quarantine/ when it is read.
const maxDamageFile = 16 << 10

// damage takes a claim back that does not hold, remembers where it was, and gives the error for the
// reader: Corrupt, or that of a disk that failed otherwise, when nothing is taken back. When the
// claim has changed meanwhile there is no damage to remember, and the error is the same: the caller
// reads again or gives up.
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
		if err := s.quarantine(dmg); err != nil {
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

// quarantine adds a record of damage, or replaces that of the same chunk.
func (s *Store) quarantine(dmg Damage) error {
	b, err := dmg.encode()
	if err != nil {
		return err
	}
	s.ill.mu.Lock()
	defer s.ill.mu.Unlock()
	s.ill.known[dmg.Digest] = dmg
	return s.hostError(disk.Replace(s.fs, s.path(quarantineDir, dmg.Digest.Hex()), b))
}

// repaired says that a chunk is here again: something claimed it. It costs a look into a map when
// nothing is wrong with it.
func (s *Store) repaired(d agentbox.Digest) { s.forget(d, "repaired") }

// forget ends the quarantine of a chunk, with a line in the log that says why. A file that cannot
// be removed is no error: the next process finds the chunk in quarantine, and says so.
func (s *Store) forget(d agentbox.Digest, why string) {
	s.ill.mu.Lock()
	defer s.ill.mu.Unlock()
	if _, ok := s.ill.known[d]; !ok {
		return
	}
	delete(s.ill.known, d)
	if err := s.fs.Remove(s.path(quarantineDir, d.Hex())); err != nil {
		s.log.Warn("store: "+why+", but still in quarantine", "chunk", d.Short(), "error", err)
		return
	}
	s.log.Info("store: "+why, "chunk", d.Short())
}

// Damaged lists what is damaged and has not been got again, in no order.
func (s *Store) Damaged() []Damage {
	s.ill.mu.Lock()
	defer s.ill.mu.Unlock()
	return slices.AppendSeq([]Damage{}, maps.Values(s.ill.known))
}

// loadDamage reads what earlier processes found. Files that are not ours are passed over.
func (s *Store) loadDamage() error {
	s.ill.known = map[agentbox.Digest]Damage{}
	names, err := s.list(quarantineDir)
	if err != nil {
		return err
	}
	for _, name := range names {
		b, err := disk.ReadFile(s.fs, s.path(quarantineDir, name), maxDamageFile)
		if err != nil {
			return s.hostError(err)
		}
		d, err := agentbox.ParseDigest("sha256:" + name)
		if err != nil {
			continue // not ours
		}
		s.ill.known[d] = decodeDamage(b, d)
	}
	return nil
}

func (dmg Damage) encode() ([]byte, error) {
	b, err := json.MarshalIndent(dmg, "", "  ")
	return append(b, '\n'), err
}

// decodeDamage reads the record of a chunk's damage. What it cannot read it makes up: the chunk
// stays damaged.
func decodeDamage(b []byte, d agentbox.Digest) Damage {
	var dmg Damage
	if json.Unmarshal(b, &dmg) != nil || dmg.Digest != d || dmg.Offset < 0 || dmg.Bytes < 0 {
		return Damage{Digest: d, Why: "the record of the damage is damaged too"}
	}
	return dmg
}

// repair stores a piece that was fetched for a damaged one: in its place in an image file that
// others may have mapped, else like any other. A box that has the image mapped reads the right
// bytes from then on. The piece was hashed.
func (s *Store) repair(ctx context.Context, w *writer, dmg Damage, piece []byte) error {
	if owner, ok := s.handles.imageOf(dmg.Image); ok && dmg.Image != 0 {
		err := w.putBlockIn(ctx, dmg.Image, owner, dmg.Digest, piece, dmg.Offset)
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	what := pack.Chunk
	if _, ok, err := s.index.Meta(dmg.Digest); err != nil {
		return err
	} else if ok {
		what = pack.Manifest
	}
	return w.putRecord(ctx, what, dmg.Digest, piece)
}
