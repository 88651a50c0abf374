package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"agentbox/agentbox"
	"agentbox/bench"
	"agentbox/cachestore"
	"agentbox/cachestore/blob"
)

// StoreLab measures the store. It has a disk image of real files and stores of its own in one
// directory, which Close removes. It has no daemon.
type StoreLab struct {
	cfg StoreConfig
	// image is the file that is stored; size is its length in bytes, including holes.
	dir, image string
	size       int64
	// peers are those that Prepare found: name and path of the program.
	peers map[string]string
	// store is the one that was filled last, or nil. Scenarios that read it fill one if necessary,
	// whichever were selected.
	store *cachestore.Store
	// stored is the result of the last put of the whole image.
	stored cachestore.PutResult
	say    agentbox.Progress
}

// StoreConfig is what a StoreLab needs. All fields but Tools and Progress are required.
type StoreConfig struct {
	Dir      string // where to work: should be on the disk of users' stores
	Tools    string // where peers that had to be built are kept
	Size     int64  // bytes of the image, most of them zeros
	Files    int64  // bytes of real files in it
	Progress agentbox.Progress
}

// Sizes of the image in docs/internals/benchmarks.md. They are those of an image with a toolchain,
// which is mostly holes.
const (
	StoreImageSize  = 2 << 30
	StoreImageFiles = 600 << 20
)

// OpenStoreLab makes the directory; Prepare makes what scenarios need. The caller closes it.
func OpenStoreLab(ctx context.Context, cfg StoreConfig) (*StoreLab, error) {
	dir, err := os.MkdirTemp(cfg.Dir, "bench-store-")
	if err != nil {
		return nil, err
	}
	return &StoreLab{cfg: cfg, dir: dir, image: filepath.Join(dir, "image"), size: cfg.Size, say: cfg.Progress}, nil
}

// Prepare makes what these scenarios need, including the image and the peers, and returns those
// that can be measured.
func (l *StoreLab) Prepare(ctx context.Context, scenarios []bench.Scenario) ([]bench.Scenario, error) {
	if len(scenarios) == 0 {
		return nil, nil
	}
	end := l.say.Begin("image", fmt.Sprintf("%d MiB of files", l.cfg.Files>>20))
	if err := makeDiskImage(ctx, l.image, filepath.Join(l.dir, "files"), l.cfg.Size, l.cfg.Files); err != nil {
		return nil, err
	}
	end("")
	l.peers = map[string]string{}
	var out []bench.Scenario
	for _, s := range scenarios {
		i := slices.IndexFunc(peers, func(p peer) bool { return s.Name == "peer/"+p.name })
		if i >= 0 {
			program, err := findPeer(ctx, l.cfg.Tools, peers[i], l.say)
			if err != nil {
				l.say.Note(fmt.Sprintf("without %s: %v", peers[i].name, err))
				continue
			}
			l.peers[peers[i].name] = program
		}
		out = append(out, s)
	}
	return out, ctx.Err()
}

// Close removes everything.
func (l *StoreLab) Close() error { return errors.Join(l.closeStore(), os.RemoveAll(l.dir)) }

// closeStore closes the store that was filled last, if any.
func (l *StoreLab) closeStore() error {
	if l.store == nil {
		return nil
	}
	err := l.store.Close()
	l.store = nil
	return err
}

// storeCeiling is in milliseconds.
const storeCeiling = 10 * 60 * 1000

// Scenarios returns the scenarios of the store. Everything is in the page cache, for the peers as
// for us. We sync what we write; the peers do as they usually do.
func (l *StoreLab) Scenarios() []bench.Scenario {
	ms := func(name, baseline string, measure func(ctx context.Context) (time.Duration, error)) bench.Scenario {
		return bench.Scenario{Name: name, Unit: bench.Milliseconds, Ceiling: storeCeiling, Baseline: baseline, Measure: func(ctx context.Context) (float64, error) {
			took, err := measure(ctx)
			return float64(took.Microseconds()) / 1000, err
		}}
	}
	out := []bench.Scenario{
		ms("peer/sha256sum", "", func(ctx context.Context) (time.Duration, error) { return timed(ctx, "", "sha256sum", l.image) }),
		ms("store/ingest-cold", "peer/sha256sum", l.ingestCold),
		ms("store/ingest-changed", "store/ingest-cold", l.ingestChanged),
		{
			Name: "store/stored-bytes", Unit: bench.Bytes, Ceiling: float64(l.size),
			Measure: func(ctx context.Context) (float64, error) {
				err := l.ensure(ctx)
				return float64(l.stored.Written), err
			},
		},
		{
			Name: "store/changed-bytes", Unit: bench.Bytes, Ceiling: float64(l.size), Baseline: "store/stored-bytes",
			Measure: func(ctx context.Context) (float64, error) {
				st, _, err := l.putChanged(ctx)
				return float64(st.Written), err
			},
		},
		ms("peer/cp", "", l.copyPlain),
		ms("store/read", "peer/cp", l.read),
		ms("store/verify", "peer/sha256sum", l.verify),
	}
	for _, p := range peers {
		out = append(out, ms("peer/"+p.name, "store/ingest-cold", func(ctx context.Context) (time.Duration, error) {
			return p.ingest(ctx, l.peers[p.name], filepath.Join(l.dir, "peer"), l.image)
		}))
	}
	return out
}

// timed runs a program to its end, in dir unless that is "", and returns the time it took.
func timed(ctx context.Context, dir, program string, args ...string) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	start := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %.200s", program, err, out)
	}
	return time.Since(start), nil
}

// fresh opens an empty store.
func (l *StoreLab) fresh(ctx context.Context) error {
	dir := filepath.Join(l.dir, "store")
	if err := errors.Join(l.closeStore(), os.RemoveAll(dir)); err != nil {
		return err
	}
	var err error
	l.store, err = cachestore.Open(ctx, cachestore.Config{Dir: dir, ReserveFile: -1})
	return err
}

// put stores the image as it is now, and returns the time of PutImage alone, without opening the
// file and the store.
func (l *StoreLab) put(ctx context.Context) (cachestore.PutResult, time.Duration, error) {
	f, err := os.Open(l.image)
	if err != nil {
		return cachestore.PutResult{}, 0, err
	}
	defer f.Close()
	start := time.Now()
	st, err := l.store.PutImage(ctx, f, l.size, blob.Info{Kind: blob.Image})
	return st, time.Since(start), err
}

// ingestCold stores it in an empty store, where every block with data is new.
func (l *StoreLab) ingestCold(ctx context.Context) (time.Duration, error) {
	if err := l.fresh(ctx); err != nil {
		return 0, err
	}
	st, took, err := l.put(ctx)
	l.stored = st
	return took, err
}

// ensure fills a store if there is none, so that each scenario can be selected alone.
func (l *StoreLab) ensure(ctx context.Context) error {
	if l.store != nil {
		return nil
	}
	_, err := l.ingestCold(ctx)
	return err
}

// ingestChanged measures storing an image that was rebuilt with few changes.
func (l *StoreLab) ingestChanged(ctx context.Context) (time.Duration, error) {
	_, took, err := l.putChanged(ctx)
	return took, err
}

// putChanged stores the image with one percent of its data blocks replaced by random bytes, and
// then restores these blocks in the image file. The store keeps the blocks of earlier samples.
func (l *StoreLab) putChanged(ctx context.Context) (st cachestore.PutResult, took time.Duration, err error) {
	if err := l.ensure(ctx); err != nil {
		return st, 0, err
	}
	m, err := l.store.Manifest(ctx, l.stored.Manifest)
	if err != nil {
		return st, 0, err
	}
	data := slices.DeleteFunc(m.Data(), func(i int) bool { return m.Chunks[i].Size != blob.BlockSize })
	f, err := os.OpenFile(l.image, os.O_RDWR, 0)
	if err != nil {
		return st, 0, err
	}
	defer f.Close()
	// In random order: adjacent blocks would be read and written together.
	rand.Shuffle(len(data), func(i, j int) { data[i], data[j] = data[j], data[i] })
	for _, i := range data[:len(data)/100] {
		off, old, fresh := int64(i)*blob.BlockSize, make([]byte, blob.BlockSize), make([]byte, blob.BlockSize)
		if _, err := f.ReadAt(old, off); err != nil {
			return st, 0, err
		}
		for j := range fresh {
			fresh[j] = byte(rand.Uint32())
		}
		if _, err := f.WriteAt(fresh, off); err != nil {
			return st, 0, err
		}
		defer func() {
			if _, back := f.WriteAt(old, off); back != nil {
				err = errors.Join(err, back)
			}
		}()
	}
	// The deferred funcs restore the image, so that the next sample changes other blocks of it.
	return l.put(ctx)
}

// copyPlain measures cp, the least that reading and writing the image costs.
func (l *StoreLab) copyPlain(ctx context.Context) (time.Duration, error) {
	to := filepath.Join(l.dir, "copy")
	defer os.Remove(to)
	return timed(ctx, "", "cp", l.image, to)
}

// read has the store write the image to a file, which hashes each block.
func (l *StoreLab) read(ctx context.Context) (time.Duration, error) {
	if err := l.ensure(ctx); err != nil {
		return 0, err
	}
	to := filepath.Join(l.dir, "copy")
	defer os.Remove(to)
	start := time.Now()
	err := l.store.CopyTo(ctx, l.stored.Manifest, to, nil)
	return time.Since(start), err
}

// verify hashes everything in the store. Damage is an error, because the figure would be that of
// another store.
func (l *StoreLab) verify(ctx context.Context) (time.Duration, error) {
	if err := l.ensure(ctx); err != nil {
		return 0, err
	}
	start := time.Now()
	r, err := l.store.Verify(ctx, cachestore.VerifyOptions{})
	if err == nil && len(r.Damaged) > 0 {
		err = agentbox.Errorf(agentbox.Corrupt, "damaged: %s", agentbox.Plural(len(r.Damaged), "chunk"))
	}
	return time.Since(start), err
}
