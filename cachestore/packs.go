package cachestore

import (
	"fmt"
	"sync"

	"agentbox/agentbox"
	"agentbox/cachestore/disk"
	"agentbox/cachestore/index"
	"agentbox/cachestore/pack"
)

// packSize is how large a pack grows before the next one begins, in bytes; the last record may
// exceed it. gc frees packs as a whole and moves what is needed out of sparse ones, so a pack is
// what one step of that may have to copy.
const packSize = 64 << 20

// packs appends to the one pack that is being written. Every process begins a new one: what a crash
// left at the end of an old one is never written to again. mu guards all of it and is held during a
// write, so records do not mix.
type packs struct {
	s  *Store
	mu sync.Mutex
	// file is the pack that is being written, nil for none; id and size are its number and how much
	// of it is taken.
	file   disk.File
	id     uint64
	size   int64
	listed bool            // its directory was synced
	lost   map[uint64]bool // packs whose sync failed: what lies in them may be gone
}

func (p *packs) init(s *Store) { p.s, p.lost = s, map[uint64]bool{} }

// append writes a record and tells where its bytes lie. They last once sync has been called for the
// pack, and gc leaves the pack alone until guard.filled has been, which the caller does once they
// are claimed or given up. It makes no room and charges nobody: see writer.putRecord and
// collection.move.
func (p *packs) append(r pack.Record, stored []byte) (index.Location, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.roll(); err != nil {
		return index.Location{}, p.s.hostError(err)
	}
	b := append(r.Header(), stored...)
	// A write that fails half-way is written over by the next.
	if _, err := p.file.WriteAt(b, p.size); err != nil {
		return index.Location{}, p.s.hostError(err)
	}
	p.s.guard.fill(p.id)
	at := p.size + pack.HeaderSize
	p.size += int64(len(b))
	return index.Location{
		File: p.id, Off: at, Stored: uint32(len(stored)), Size: uint32(r.Size), Encoding: r.Encoding, Seen: p.s.seen(),
	}, nil
}

// roll begins a pack when there is none or the present one is full. The full one is synced here,
// because afterwards its file is closed, and sync only looks whether it was lost. Callers hold mu,
// as those of leave and syncLocked do.
func (p *packs) roll() error {
	if p.file != nil && p.size < packSize {
		return nil
	}
	if p.file != nil {
		if err := p.syncLocked(); err != nil {
			return err
		}
		if err := p.leave(); err != nil {
			return err
		}
	}
	id := p.s.nextID.Add(1)
	f, err := p.s.fs.Create(p.s.path(packsDir, packName(id)))
	if err != nil {
		return err
	}
	p.file, p.id, p.size, p.listed = f, id, int64(len(pack.Magic)), false
	if _, err := f.WriteAt([]byte(pack.Magic), 0); err != nil {
		p.lost[id] = true
		p.leave()
		return err
	}
	p.s.space.add("", p.size)
	return nil
}

// leave closes the present pack; the next append begins another.
func (p *packs) leave() error {
	err := p.file.Close()
	p.file, p.size = nil, 0
	return err
}

// sync flushes what was appended to the pack with this number. For one that is no longer the
// present one that was done when it was left; it fails when that failed, now or then.
func (p *packs) sync(id uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.file != nil && p.id == id {
		if err := p.syncLocked(); err != nil {
			return p.s.hostError(err)
		}
	}
	if p.lost[id] {
		return agentbox.Errorf(agentbox.Unavailable, "pack %x of the store could not be written to disk", id).WithHint("see dmesg")
	}
	return nil
}

// syncLocked gives the pack up when it fails: the system may have dropped the pages, and a second
// sync would not say so.
func (p *packs) syncLocked() error {
	err := p.file.Sync()
	if err == nil && !p.listed {
		err = p.s.fs.SyncDir(p.s.path(packsDir))
		p.listed = err == nil
	}
	if err != nil {
		p.lost[p.id] = true
		p.leave()
		return fmt.Errorf("pack %x: %w", p.id, err)
	}
	return nil
}

// seal ends the present pack, unless somebody is not done with it, so that gc may move what is
// needed of it.
func (p *packs) seal() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.file == nil || p.s.guard.busyPack(p.id) {
		return nil
	}
	if err := p.syncLocked(); err != nil {
		return err
	}
	return p.leave()
}

// idle reports whether nothing will be appended to a pack any more, and everything in it is claimed
// that will be.
func (p *packs) idle(id uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return (p.file == nil || p.id != id) && !p.s.guard.busyPack(id)
}

// close ends writing without a sync: what was promised was synced by a flush.
func (p *packs) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.file == nil {
		return nil
	}
	return p.leave()
}

// encodeRecord encodes a piece for a pack, compressed where that saves an eighth.
func (s *Store) encodeRecord(what pack.What, d agentbox.Digest, piece []byte) (pack.Record, []byte) {
	stored, enc := s.codec.Encode(piece)
	return pack.Record{What: what, Encoding: enc, Digest: d, Size: len(piece), Stored: len(stored)}, stored
}

// seen is the time of a claim that is made now, for the grace period.
func (s *Store) seen() uint32 { return uint32(s.cfg.Now().Unix()) }
