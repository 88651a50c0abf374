package cachestore

import (
	"fmt"
	"sync"

	"agentbox/agentbox"
	"agentbox/cachestore/disk"
	"agentbox/cachestore/index"
	"agentbox/cachestore/pack"
)

// packSize is the size in bytes at which a new pack is started; the last record may exceed it. gc
// removes whole packs and first moves what is needed out of sparse ones, so this bounds how much
// one such step copies.
const packSize = 64 << 20

// packs appends to one pack, the current one. Every process starts a new pack: what a crash left at
// the end of an old one is never overwritten. mu guards all fields and is held during a write, so
// that records do not mix.
type packs struct {
	s  *Store
	mu sync.Mutex
	// file is the current pack, nil for none; id is its number, size the number of bytes in it.
	file   disk.File
	id     uint64
	size   int64
	listed bool            // its directory was synced
	failed map[uint64]bool // packs whose sync failed: their bytes may be lost
}

func (p *packs) init(s *Store) { p.s, p.failed = s, map[uint64]bool{} }

// append writes a record and returns the location of its bytes. They are on disk after sync of the
// pack. gc does not touch the pack until guard.releasePack, which the caller calls when the bytes
// are claimed or abandoned. append neither reserves space nor charges anybody; see writer.putRecord
// and collection.move.
func (p *packs) append(r pack.Record, stored []byte) (index.Location, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.rotate(); err != nil {
		return index.Location{}, p.s.hostError(err)
	}
	b := append(r.Header(), stored...)
	// The next write overwrites one that failed half-way.
	if _, err := p.file.WriteAt(b, p.size); err != nil {
		return index.Location{}, p.s.hostError(err)
	}
	p.s.guard.holdPack(p.id)
	at := p.size + pack.HeaderSize
	p.size += int64(len(b))
	return index.Location{
		File: p.id, Off: at, Stored: uint32(len(stored)), Size: uint32(r.Size), Encoding: r.Encoding, Seen: p.s.claimTime(),
	}, nil
}

// rotate starts a pack if there is none or the current one is full. It syncs a full one, because
// sync cannot do so once its file is closed. Callers of rotate, closeCurrent and syncLocked hold
// mu.
func (p *packs) rotate() error {
	if p.file != nil && p.size < packSize {
		return nil
	}
	if p.file != nil {
		if err := p.syncLocked(); err != nil {
			return err
		}
		if err := p.closeCurrent(); err != nil {
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
		p.failed[id] = true
		p.closeCurrent()
		return err
	}
	p.s.space.add("", p.size)
	return nil
}

// closeCurrent closes the current pack; the next append starts another.
func (p *packs) closeCurrent() error {
	err := p.file.Close()
	p.file, p.size = nil, 0
	return err
}

// sync flushes what was appended to a pack. A pack that is no longer current was synced when it was
// closed; the error is that of the earlier sync.
func (p *packs) sync(id uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.file != nil && p.id == id {
		if err := p.syncLocked(); err != nil {
			return p.s.hostError(err)
		}
	}
	if p.failed[id] {
		return agentbox.Errorf(agentbox.Unavailable, "pack %x of the store could not be written to disk", id).WithHint("see dmesg")
	}
	return nil
}

// syncLocked closes the pack if the sync fails: the system may have dropped the pages, and a second
// sync would not report that.
func (p *packs) syncLocked() error {
	err := p.file.Sync()
	if err == nil && !p.listed {
		err = p.s.fs.SyncDir(p.s.path(packsDir))
		p.listed = err == nil
	}
	if err != nil {
		p.failed[p.id] = true
		p.closeCurrent()
		return fmt.Errorf("pack %x: %w", p.id, err)
	}
	return nil
}

// seal ends the current pack, unless it has pending pieces, so that gc may move things out.
func (p *packs) seal() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.file == nil || p.s.guard.busyPack(p.id) {
		return nil
	}
	if err := p.syncLocked(); err != nil {
		return err
	}
	return p.closeCurrent()
}

// idle reports whether nothing more will be appended to a pack, or claimed in it.
func (p *packs) idle(id uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return (p.file == nil || p.id != id) && !p.s.guard.busyPack(id)
}

// close closes the current pack without a sync: everything that was claimed was synced by a flush.
func (p *packs) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.file == nil {
		return nil
	}
	return p.closeCurrent()
}

// encodeRecord encodes a piece for a pack, compressed if that saves an eighth.
func (s *Store) encodeRecord(what pack.Kind, d agentbox.Digest, piece []byte) (pack.Record, []byte) {
	stored, enc := s.codec.Encode(piece)
	return pack.Record{Kind: what, Encoding: enc, Digest: d, Size: len(piece), Stored: len(stored)}, stored
}

// claimTime returns the time of a claim that is made now, for the grace period.
func (s *Store) claimTime() uint32 { return uint32(s.cfg.Now().Unix()) }
