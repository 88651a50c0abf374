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

// reclaim frees the space of files where there is no claim on it. removed says whether claims were
// removed just now; if not, the current pack need not be sealed.
//
// The order matters: idle files and images are listed before claims are counted. A file that is
// started later is not in the lists, and an idle one gets no more claims.
func (col *collection) reclaim(ctx context.Context, removed bool) error {
	// A sealed pack gets no more claims, so those that we count next are all there are.
	if removed {
		if err := col.s.packs.seal(); err != nil {
			return col.s.hostError(err)
		}
	}
	packs, err := col.s.idlePacks()
	if err != nil {
		return err
	}
	images, err := col.s.list(imagesDir)
	if err != nil {
		return err
	}
	claimed := map[fileKey]*extent{}
	err = col.s.index.EachChunk(ctx, func(d agentbox.Digest, p index.Location) error {
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
	if err := col.reclaimPacks(ctx, packs, claimed); err != nil {
		return err
	}
	return col.reclaimImages(ctx, images, claimed)
}

// extent is the claimed part of a file: bytes, including the headers of a pack's records, and for
// an image the numbers of its blocks.
type extent struct {
	bytes  int64
	blocks map[int64]bool
}

// sparseDivisor is a divisor: when this part of a pack is dead, the rest is moved elsewhere. Moving
// rewrites what stays, so a pack that is nearly full is left until more of it is dead.
const sparseDivisor = 4

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

// reclaimPacks removes the packs without claims. It also removes those with few claims, after it
// has moved these to the current pack.
func (col *collection) reclaimPacks(ctx context.Context, packs []uint64, claimed map[fileKey]*extent) error {
	moving := map[uint64][]claimOn{}
	for _, id := range packs {
		k := fileKey{id: id}
		size, err := col.sizeOf(k)
		if err != nil {
			return err
		}
		switch e := claimed[k]; {
		case e == nil:
			if err := col.remove(k, size.Size); err != nil {
				return err
			}
		case size.Size-e.bytes >= size.Size/sparseDivisor:
			moving[id] = nil
		}
	}
	if len(moving) == 0 {
		return nil
	}
	if err := col.claimsOn(ctx, moving); err != nil {
		return err
	}
	for id, list := range moving {
		k := fileKey{id: id}
		size, err := col.sizeOf(k)
		if err == nil {
			err = col.move(ctx, id, list)
		}
		if err == nil {
			err = col.remove(k, size.Size)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (col *collection) sizeOf(k fileKey) (disk.Stat, error) {
	f, err := col.s.handles.get(k)
	if err != nil {
		return disk.Stat{}, col.s.hostError(err)
	}
	defer col.s.handles.put(f)
	st, err := f.Stat()
	return st, col.s.hostError(err)
}

// claimsOn fills in the claims on some packs, those of each in the order of their offsets.
func (col *collection) claimsOn(ctx context.Context, packs map[uint64][]claimOn) error {
	err := col.s.index.EachChunk(ctx, func(d agentbox.Digest, p index.Location) error {
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

// remove removes a file that was counted with counted bytes.
//
// Readers that have it open continue. One that tries to open it now gets an error and asks the
// index again (Store.read).
func (col *collection) remove(k fileKey, counted int64) error {
	path := col.s.handles.path(k)
	owner, image := col.s.handles.imageOf(k.id)
	col.s.handles.forget(k)
	if err := col.s.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		if k.image && image { // still there, for the next gc to find
			col.s.handles.register(k.id, owner)
		}
		return col.s.hostError(err)
	}
	col.s.space.add("", -counted)
	return nil
}

// move copies the claimed pieces of a pack to the current one, syncs that, and then changes the
// claims. Only then may the caller remove the old pack. It relies on the claims, since a header may
// be damaged although the bytes behind it are intact. It does not copy a damaged piece, but removes
// its claim. It does not check for room: it writes less than the removal frees, and gc has to work
// on a full disk.
func (col *collection) move(ctx context.Context, id uint64, list []claimOn) error {
	var moved []claimOn
	packs := map[uint64]bool{}
	defer func() {
		for _, x := range moved {
			col.s.guard.releasePack(x.place.File, 1)
		}
	}()
	for _, x := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		p, ok, err := col.s.index.Chunk(x.digest)
		if err != nil {
			return err
		}
		if !ok || p.Image || p.File != id {
			continue // claimed elsewhere meanwhile, or dropped
		}
		stored, err := col.s.readStored(x.digest, p)
		if err != nil {
			if err = col.s.damage(x.digest, p, err); agentbox.CodeOf(err) != agentbox.Corrupt {
				return err
			}
			continue
		}
		to, err := col.appendCopy(x.digest, p, stored)
		if err != nil {
			return err
		}
		packs[to.File] = true
		moved = append(moved, claimOn{x.digest, to})
	}
	for to := range packs {
		if err := col.s.packs.sync(to); err != nil {
			return err
		}
	}
	return col.reclaimed(moved, id)
}

// appendCopy appends the stored bytes of the piece at p to the current pack.
func (col *collection) appendCopy(d agentbox.Digest, p index.Location, stored []byte) (index.Location, error) {
	r := pack.Record{Kind: pack.Chunk, Encoding: p.Encoding, Digest: d, Size: int(p.Size), Stored: int(p.Stored)}
	if _, ok, err := col.s.index.Meta(d); err != nil {
		return p, err
	} else if ok {
		r.Kind = pack.Manifest
	}
	to, err := col.s.packs.append(r, stored)
	if err != nil {
		return p, err
	}
	col.s.space.add("", int64(r.Stored)+pack.HeaderSize)
	// It keeps its age: moving must not start another grace period.
	to.Seen = p.Seen
	return to, nil
}

// reclaimed records the new locations of a pack's pieces, except those that were claimed elsewhere
// or dropped meanwhile.
func (col *collection) reclaimed(moved []claimOn, from uint64) error {
	col.s.metaMu.Lock()
	defer col.s.metaMu.Unlock()
	var b index.Batch
	for _, x := range moved {
		p, ok, err := col.s.index.Chunk(x.digest)
		if err != nil {
			return err
		}
		if ok && !p.Image && p.File == from {
			b.SetChunk(x.digest, x.place)
		}
	}
	return col.s.index.Apply(&b)
}

// reclaimImages frees the unclaimed space of image files whose names are ours.
func (col *collection) reclaimImages(ctx context.Context, images []string, claimed map[fileKey]*extent) error {
	for _, name := range images {
		id, owner, ok := parseImage(name)
		if !ok {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := col.reclaimImage(id, owner, claimed[fileKey{true, id}]); err != nil {
			return err
		}
	}
	return nil
}

// reclaimImage removes the file of a manifest that was dropped. If other images still need blocks
// of it, it punches holes in place of all other blocks instead.
func (col *collection) reclaimImage(id uint64, owner agentbox.Digest, claimed *extent) error {
	col.s.imageMu.Lock()
	defer col.s.imageMu.Unlock()
	m, alive, err := col.s.index.Meta(owner)
	if err != nil {
		return err
	}
	// A manifest that was added again does not know its file yet: see ensureImage.
	owned := alive && (m.File == id || m.File == 0)
	// A box that another process feeds may read the file of a live manifest, and we cannot see that
	// reader.
	if col.s.guard.busyImage(id) || col.s.guard.isHeld(owner) || owned {
		return nil
	}
	k := fileKey{true, id}
	if claimed == nil {
		st, err := col.sizeOf(k)
		if err != nil {
			return err
		}
		return col.remove(k, st.Allocated)
	}
	return col.punch(k, claimed)
}

// punch makes holes in place of an image's unclaimed blocks. A file with another hard link also
// belongs to somebody else (PutImageFile), and stays as it is.
func (col *collection) punch(k fileKey, claimed *extent) error {
	f, err := col.s.fs.Open(col.s.handles.path(k), true)
	if err != nil {
		return col.s.hostError(err)
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil || before.Links > 1 { // it has another owner
		return col.s.hostError(err)
	}
	if err := punchExcept(f, before.Size, claimed.blocks); err != nil {
		return col.s.hostError(err)
	}
	after, err := f.Stat()
	col.s.space.add("", after.Allocated-before.Allocated)
	return col.s.hostError(err)
}

// punchExcept walks the data of a file and frees every block that is not in keep. It goes block by
// block, since the file system reports adjacent blocks as one extent.
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
