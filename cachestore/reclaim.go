package cachestore

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/disk"
	"agentbox/cachestore/index"
	"agentbox/cachestore/pack"
)

// reclaim gives back the space of files, as far as no claim is on it. removed says that claims were
// taken back just now; without that the present pack need not be ended.
//
// The order matters: which files are idle, and which images there are, is listed before the claims
// are counted. A file that is begun later is not in the lists, and one that was idle gets no more
// claims.
func (g *collection) reclaim(ctx context.Context, removed bool) error {
	// A pack that nobody writes to now gets no more claims: those we count next are all there are.
	if removed {
		if err := g.s.packs.seal(); err != nil {
			return g.s.hostError(err)
		}
	}
	packs, err := g.s.idlePacks()
	if err != nil {
		return err
	}
	images, err := g.s.list(imagesDir)
	if err != nil {
		return err
	}
	claimed := map[fileKey]*extent{}
	err = g.s.index.EachChunk(ctx, func(d agentbox.Digest, p index.Location) error {
		e := claimed[keyOf(p)]
		if e == nil {
			e = &extent{blocks: map[int64]bool{}}
			claimed[keyOf(p)] = e
		}
		e.bytes += int64(p.Stored) + pack.HeaderSize
		if p.Image {
			e.blocks[p.Off/blob.BlockSize] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := g.reclaimPacks(ctx, packs, claimed); err != nil {
		return err
	}
	return g.reclaimImages(ctx, images, claimed)
}

// extent is what is claimed of a file: bytes with the headers of a pack's records, and for an image
// the numbers of its blocks.
type extent struct {
	bytes  int64
	blocks map[int64]bool
}

// sparse is the part of a pack that must be dead before the rest is moved elsewhere, as a divisor.
// Moving writes what stays again, so a pack that is nearly full is left until more of it is dead.
const sparse = 4

// idlePacks lists the packs that get no more claims.
func (s *Store) idlePacks() ([]uint64, error) {
	names, err := s.list(packsDir)
	var out []uint64
	for _, name := range names {
		if id, ok := parsePack(name); ok && s.packs.idle(id) {
			out = append(out, id)
		}
	}
	return out, err
}

// reclaimPacks removes the packs of which nothing is claimed, and those of which little is, once
// that was moved to the present pack.
func (g *collection) reclaimPacks(ctx context.Context, packs []uint64, claimed map[fileKey]*extent) error {
	moving := map[uint64][]claimOn{}
	for _, id := range packs {
		k := fileKey{id: id}
		size, err := g.sizeOf(k)
		if err != nil {
			return err
		}
		switch e := claimed[k]; {
		case e == nil:
			if err := g.remove(k, size.Size); err != nil {
				return err
			}
		case size.Size-e.bytes >= size.Size/sparse:
			moving[id] = nil
		}
	}
	if len(moving) == 0 {
		return nil
	}
	if err := g.claimsOn(ctx, moving); err != nil {
		return err
	}
	for id, list := range moving {
		k := fileKey{id: id}
		size, err := g.sizeOf(k)
		if err == nil {
			err = g.move(ctx, id, list)
		}
		if err == nil {
			err = g.remove(k, size.Size)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sizeOf returns the size of a pack or an image file.
func (g *collection) sizeOf(k fileKey) (disk.Stat, error) {
	f, err := g.s.handles.get(k)
	if err != nil {
		return disk.Stat{}, g.s.hostError(err)
	}
	defer g.s.handles.put(f)
	st, err := f.Stat()
	return st, g.s.hostError(err)
}

// claimsOn fills in the claims on some packs, those of each in the order in which they lie there.
func (g *collection) claimsOn(ctx context.Context, packs map[uint64][]claimOn) error {
	err := g.s.index.EachChunk(ctx, func(d agentbox.Digest, p index.Location) error {
		if list, ok := packs[p.File]; ok && !p.Image {
			packs[p.File] = append(list, claimOn{d, p})
		}
		return nil
	})
	for _, list := range packs {
		slices.SortFunc(list, func(a, b claimOn) int { return cmp.Compare(a.place.Off, b.place.Off) })
	}
	return err
}

// remove removes a file that was counted as so many bytes.
//
// Readers that have it open go on; one that opens it now is told that it is gone, and asks the
// index again (Store.read).
func (g *collection) remove(k fileKey, counted int64) error {
	path := g.s.handles.path(k)
	g.s.handles.forget(k)
	if err := g.s.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return g.s.hostError(err)
	}
	g.s.space.add("", -counted)
	return nil
}

// move copies what is claimed of a pack to the one that is being written, and changes the claims
// once that was synced. Only then may the caller remove the old pack. It goes by the claims: a
// header may be damaged while the bytes behind it are right. A piece that is damaged itself is not
// copied: its claim is taken back. Room is not asked for: what is written here is less than what
// the removal frees, and gc runs when there is none.
func (g *collection) move(ctx context.Context, id uint64, list []claimOn) error {
	var moved []claimOn
	packs := map[uint64]bool{}
	defer func() {
		for _, x := range moved {
			g.s.guard.filled(x.place.File, 1)
		}
	}()
	for _, x := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		p, ok, err := g.s.index.Chunk(x.digest)
		if err != nil {
			return err
		}
		if !ok || p.Image || p.File != id {
			continue // claimed elsewhere by now, or given up
		}
		stored, err := g.s.readStored(x.digest, p)
		if err != nil {
			if err = g.s.damage(x.digest, p, err); agentbox.CodeOf(err) != agentbox.Corrupt {
				return err
			}
			continue
		}
		to, err := g.appendCopy(x.digest, p, stored)
		if err != nil {
			return err
		}
		packs[to.File] = true
		moved = append(moved, claimOn{x.digest, to})
	}
	for to := range packs {
		if err := g.s.packs.sync(to); err != nil {
			return err
		}
	}
	return g.reclaimed(moved, id)
}

// appendCopy appends the piece that lies at p, as it is stored there, to the present pack.
func (g *collection) appendCopy(d agentbox.Digest, p index.Location, stored []byte) (index.Location, error) {
	r := pack.Record{What: pack.Chunk, Encoding: p.Encoding, Digest: d, Size: int(p.Size), Stored: int(p.Stored)}
	if _, ok, err := g.s.index.Meta(d); err != nil {
		return p, err
	} else if ok {
		r.What = pack.Manifest
	}
	to, err := g.s.packs.append(r, stored)
	if err != nil {
		return p, err
	}
	g.s.space.add("", int64(r.Stored)+pack.HeaderSize)
	// It is as old as it was: moving must not earn another grace period.
	to.Seen = p.Seen
	return to, nil
}

// reclaimed says where the pieces of a pack are now, unless one was claimed elsewhere or given up
// meanwhile.
func (g *collection) reclaimed(moved []claimOn, from uint64) error {
	g.s.metaMu.Lock()
	defer g.s.metaMu.Unlock()
	var b index.Batch
	for _, x := range moved {
		p, ok, err := g.s.index.Chunk(x.digest)
		if err != nil {
			return err
		}
		if ok && !p.Image && p.File == from {
			b.SetChunk(x.digest, x.place)
		}
	}
	return g.s.index.Apply(&b)
}

// reclaimImages gives back what is not claimed of image files. Those whose names are not ours are
// left alone.
func (g *collection) reclaimImages(ctx context.Context, images []string, claimed map[fileKey]*extent) error {
	for _, name := range images {
		id, owner, ok := parseImage(name)
		if !ok {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := g.reclaimImage(id, owner, claimed[fileKey{true, id}]); err != nil {
			return err
		}
	}
	return nil
}

// reclaimImage removes the file of a manifest that was dropped, or, while blocks of it are claimed
// because other images need them, makes holes of the others.
func (g *collection) reclaimImage(id uint64, owner agentbox.Digest, claimed *extent) error {
	g.s.imageMu.Lock()
	defer g.s.imageMu.Unlock()
	m, alive, err := g.s.index.Meta(owner)
	if err != nil {
		return err
	}
	// A manifest that was made known again does not know its file yet: see ensureImage.
	owned := alive && (m.File == id || m.File == 0)
	// The file of a manifest that stays may be read by a box that another process feeds, where we
	// do not see it.
	if g.s.guard.busyImage(id) || g.s.guard.isHeld(owner) || owned {
		return nil
	}
	k := fileKey{true, id}
	if claimed == nil {
		st, err := g.sizeOf(k)
		if err != nil {
			return err
		}
		return g.remove(k, st.Allocated)
	}
	return g.punch(k, claimed)
}

// punch makes holes of an image's blocks that are not claimed. A file with another name is somebody
// else's too (PutImageFile), and stays as it is.
func (g *collection) punch(k fileKey, claimed *extent) error {
	f, err := g.s.fs.Open(g.s.handles.path(k), true)
	if err != nil {
		return g.s.hostError(err)
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil || before.Links > 1 { // somebody else's file too
		return g.s.hostError(err)
	}
	if err := punchExcept(f, before.Size, claimed.blocks); err != nil {
		return g.s.hostError(err)
	}
	after, err := f.Stat()
	g.s.space.add("", after.Allocated-before.Allocated)
	return g.s.hostError(err)
}

// punchExcept walks the data of a file and frees every block that is not in keep, block by block:
// data that spans blocks is one stretch to the file system.
func punchExcept(f disk.File, size int64, keep map[int64]bool) error {
	for at := int64(0); at < size; {
		start, end, err := f.NextData(at)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for b := start / blob.BlockSize; b*blob.BlockSize < end; b++ {
			if keep[b] {
				continue
			}
			if err := f.Punch(b*blob.BlockSize, min(blob.BlockSize, size-b*blob.BlockSize)); err != nil {
				return err
			}
		}
		at = end
	}
	return nil
}
