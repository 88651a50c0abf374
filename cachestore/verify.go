package cachestore

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/index"
	"agentbox/cachestore/pack"
)

// VerifyOptions configure a verification.
type VerifyOptions struct {
	Rebuild  bool                    // also claim again what is in the files but lost from the index
	Source   Source                  // for repairs; may be nil
	Rate     int64                   // bytes per second at most; 0: no limit
	Progress func(done, total int64) // bytes; may be nil
}

// VerifyReport is the result of a verification. Damaged lists all current damage, including what
// was found earlier and not repaired.
type VerifyReport struct {
	Chunks   int           `json:"chunks"` // claims that were checked
	Bytes    int64         `json:"bytes"`  // of these claims, on disk
	Damaged  []Damage      `json:"damaged"`
	Repaired int           `json:"repaired"`
	Lost     int64         `json:"lost"`    // damaged entries of the index
	Missing  []Incomplete  `json:"missing"` // named or pinned blobs that are incomplete
	Took     time.Duration `json:"took"`
}

// Incomplete is a root that lacks chunks. For a lazy image that is normal.
type Incomplete struct {
	Manifest agentbox.Digest `json:"manifest"`
	Chunks   int             `json:"chunks"` // the number of them; -1: the manifest itself is missing
}

// Verify reads and hashes everything that the index claims. Afterwards the index claims nothing
// that the files do not hold. Data that does not match is quarantined, and repaired if the Source
// has it. Readers and writers may continue meanwhile.
//
// Damage is not an error but part of the report. An error means that the verification itself
// failed; the report then says how far it came. It holds a list of all claims in memory, and hashes
// with SHA-256 as many chunks at once as there are processors.
func (s *Store) Verify(ctx context.Context, o VerifyOptions) (VerifyReport, error) {
	start, lost := time.Now(), s.index.Damaged()
	v := &verification{s: s, o: o, pace: rateLimiter{rate: o.Rate, start: start}}
	if o.Rebuild {
		if err := s.rebuildAlone(ctx, o.Progress); err != nil {
			return v.report, err
		}
	}
	list, err := v.claims(ctx)
	if err == nil {
		err = v.check(ctx, list)
	}
	if err == nil {
		err = v.repair(ctx)
	}
	if err == nil {
		err = v.findMissing(ctx)
	}
	v.report.Damaged = s.Damaged()
	v.report.Lost = s.index.Damaged() - lost
	v.report.Took = time.Since(start)
	return v.report, err
}

// rebuildAlone rebuilds while gc cannot run, which would remove what is about to be claimed.
func (s *Store) rebuildAlone(ctx context.Context, progress func(done, total int64)) error {
	s.gcMu.Lock()
	defer s.gcMu.Unlock()
	return s.rebuild(ctx, progress)
}

// verification is one run of Verify. mu guards the report while workers check.
type verification struct {
	s    *Store
	o    VerifyOptions
	pace rateLimiter
	// total is the bytes of all claims on disk, for progress.
	total  int64
	mu     sync.Mutex
	report VerifyReport
}

// claims lists all claims in the order of their files and offsets, so that reads are sequential.
// Later claims are not checked, since their bytes were just hashed.
func (v *verification) claims(ctx context.Context) ([]claimOn, error) {
	var list []claimOn
	err := v.s.index.EachChunk(ctx, func(d agentbox.Digest, p index.Location) error {
		list = append(list, claimOn{d, p})
		v.total += int64(p.Stored)
		return nil
	})
	slices.SortFunc(list, func(a, b claimOn) int {
		return cmp.Or(cmp.Compare(a.place.File, b.place.File), cmp.Compare(a.place.Off, b.place.Off))
	})
	return list, err
}

// verifyRun is what one worker checks at a time, in bytes: enough for sequential reads.
const verifyRun = 4 << 20

func (v *verification) check(ctx context.Context, list []claimOn) error {
	workers := newWorkers(ctx)
	var err error
	for len(list) > 0 && err == nil {
		n, bytes := 0, int64(0)
		for n < len(list) && bytes < verifyRun {
			bytes += int64(list[n].place.Stored)
			n++
		}
		part := list[:n]
		list = list[n:]
		err = workers.do(func(ctx context.Context) error { return v.checkRun(ctx, workers, part, bytes) })
	}
	return workers.wait(err)
}

// checkRun checks some adjacent claims. One that changed meanwhile is not damage: Store.damage asks
// the index again.
func (v *verification) checkRun(ctx context.Context, workers *workers, part []claimOn, bytes int64) error {
	buf := workers.buffer()
	defer workers.recycle(buf)
	for _, x := range part {
		if err := v.pace.wait(ctx, int64(x.place.Stored)); err != nil {
			return err
		}
		_, err := v.s.readLocation(x.digest, x.place, buf, blob.Check)
		if err == nil {
			continue
		}
		if !isDataLost(err) {
			return v.s.hostError(err)
		}
		if err := v.s.damage(x.digest, x.place, err); agentbox.CodeOf(err) != agentbox.Corrupt {
			return err
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.report.Chunks += len(part)
	v.report.Bytes += bytes
	if v.o.Progress != nil {
		v.o.Progress(v.report.Bytes, v.total)
	}
	return nil
}

// repair gets what is damaged from the Source. What the Source does not have stays in quarantine.
func (v *verification) repair(ctx context.Context) error {
	damaged := v.s.Damaged()
	if v.o.Source == nil || len(damaged) == 0 {
		return nil
	}
	w := v.s.newWriter("")
	for _, dmg := range damaged {
		b, err := fetch(ctx, v.o.Source, dmg.Digest, blob.MaxPiece)
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), w.close())
		}
		if err != nil {
			continue // it stays in the list of damage
		}
		if err := v.replace(ctx, w, dmg, b); err != nil {
			return errors.Join(err, w.close())
		}
		v.report.Repaired++
	}
	return errors.Join(w.flush(), w.close())
}

// replace stores a fetched piece in place of a damaged one: at the same offset of an image file,
// which boxes may have mapped, or otherwise like any other piece. From then on, a box that has the
// image mapped reads the right bytes. The caller has hashed the piece.
func (v *verification) replace(ctx context.Context, w *writer, dmg Damage, piece []byte) error {
	if owner, ok := v.s.handles.imageOf(dmg.Image); ok && v.isBlock(ctx, owner, dmg) {
		err := w.putBlockIn(ctx, dmg.Image, owner, dmg.Digest, piece, dmg.Offset)
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	what := pack.Chunk
	if _, ok, err := v.s.index.Meta(dmg.Digest); err != nil {
		return err
	} else if ok {
		what = pack.Manifest
	}
	return w.putRecord(ctx, what, dmg.Digest, piece)
}

// isBlock reports whether a piece belongs where a record of damage says that it was. The record may
// be damaged itself, and must not make us overwrite another block.
func (v *verification) isBlock(ctx context.Context, owner agentbox.Digest, dmg Damage) bool {
	m, err := v.s.Manifest(ctx, owner)
	block := dmg.Offset / blob.BlockSize
	return err == nil && m.Blocks && dmg.Offset%blob.BlockSize == 0 && block < int64(len(m.Chunks)) && m.Chunks[block].Digest == dmg.Digest
}

// lacking lists the roots that lack something, and gets missing manifests from the Source. A lazy
// image may lack chunks.
func (v *verification) findMissing(ctx context.Context) error {
	roots, err := v.s.roots()
	if err != nil {
		return err
	}
	v.report.Missing = []Incomplete{}
	for d := range roots.all() {
		m, err := v.ensure(ctx, d)
		if mayFetch(err) {
			v.report.Missing = append(v.report.Missing, Incomplete{d, -1})
			continue
		}
		if err != nil {
			return err
		}
		p, err := v.s.Presence(m)
		if err != nil {
			return err
		}
		if len(p.Missing) > 0 {
			v.report.Missing = append(v.report.Missing, Incomplete{d, len(p.Missing)})
		}
	}
	return nil
}

// ensure returns the manifest of a root. It gets it from the Source if necessary, and stores it.
func (v *verification) ensure(ctx context.Context, d agentbox.Digest) (blob.Manifest, error) {
	defer v.s.hold(d)()
	return v.s.EnsureManifest(ctx, d, v.o.Source)
}
