package cachestore

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/disk"
	"agentbox/cachestore/index"
)

// Store is an open store; see Open. The zero Store cannot be used.
type Store struct {
	cfg Config
	dir
	names
	pins
	lock  *os.File
	index *index.Index
	// codec compresses pieces; fingerprints recognizes bytes that were hashed before.
	codec        *blob.Codec
	fingerprints *blob.Fingerprinter
	log          *slog.Logger

	// nextID is the number of the newest file, pack or image. Numbers are never reused, so that a
	// claim on a removed file cannot be mistaken for one on another file.
	nextID atomic.Uint64
	// The parts of a Store, each in the file of its name. Each has its own mutex.
	space       space
	reserveFile reserveFile
	guard       guard
	handles     handles
	imageFiles  imageFiles
	rebuilds    rebuildMark
	packs       packs
	flights     flights[agentbox.Digest]
	quarantine  quarantine
	// unflushed maps the digests of pieces that writers have written and not claimed yet to their
	// index.Location. A piece may be gone by the time it is read. Only ReadStored uses it; all
	// other readers see what was flushed.
	unflushed sync.Map
	// checked has the digests of the images whose complete files this process has hashed. It is not
	// kept on disk, so that damage from the time when no process looked is found once per process,
	// at the price of hashing the image.
	checked sync.Map

	// metaMu is held while the metadata of a manifest changes, or a claim that depends on it: read,
	// decide and write are one step.
	metaMu sync.Mutex
	// imageMu is held to give a manifest an image file, so that it gets only one, to open one for
	// writing, and by gc while it punches or removes one.
	imageMu sync.Mutex
	// gcMu is held by gc and by a rebuild, so that gc does not free what a rebuild is claiming.
	gcMu sync.Mutex
	// searched are the manifests that a rebuild by this process did not find. gcMu guards it.
	searched map[agentbox.Digest]bool
}

// Open opens the store in cfg.Dir, or creates it. It removes files that a crash left half written.
// If the index cannot be read, Open quarantines it and rebuilds it from the files, which takes as
// long as reading them. The error is Conflict when another process has the store open.
//
// ctx bounds Open, not the store. The caller closes the Store, once.
func Open(ctx context.Context, cfg Config) (_ *Store, err error) {
	s := &Store{cfg: withDefaults(cfg), searched: map[agentbox.Digest]bool{}}
	s.dir, s.log = dir{s.cfg.FS, s.cfg.Dir}, s.cfg.Log
	s.names = names{
		dir: s.dir, manifests: s, key: s.cfg.Key, trusted: s.cfg.Trusted, changed: s.cfg.OnNameChange, now: s.cfg.Now, log: s.log,
	}
	s.pins = pins{dir: s.dir, manifests: s, now: s.cfg.Now}
	s.imageFiles = imageFiles{s.dir, &s.nextID, &s.handles}
	s.rebuilds = rebuildMark{s.dir}
	s.quarantine = quarantine{dir: s.dir, log: s.log}
	s.reserveFile = reserveFile{s.dir, s.cfg.ReserveFile, s.cfg.KeepFree, s.log}
	s.space = space{dir: s.dir, keepFree: s.cfg.KeepFree, collecting: s.guard.collecting.Load}
	s.space.evict = func(ctx context.Context, need int64, kind blob.Kind) error {
		_, err := s.GC(ctx, GCOptions{Need: need, Kind: kind})
		return err
	}
	for _, dir := range []string{"", packsDir, imagesDir, namesDir, pinsDir, quarantineDir} {
		if err := s.fs.MakeDir(s.path(dir)); err != nil {
			return nil, s.hostError(err)
		}
	}
	if s.lock, err = lockFile(s.path(lockName)); err != nil {
		return nil, err
	}
	if err := s.openParts(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func withDefaults(cfg Config) Config {
	if cfg.FS == nil {
		cfg.FS = disk.OS{}
	}
	if cfg.Grace == 0 {
		cfg.Grace = DefaultGrace
	}
	if cfg.KeepFree == 0 {
		cfg.KeepFree = DefaultKeepFree
	}
	if cfg.ReserveFile == 0 {
		cfg.ReserveFile = DefaultReserveFile
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Dir = filepath.Clean(cfg.Dir)
	return cfg
}

// openParts opens the parts of the store in the order of their dependencies: scanDisk finds the
// highest file number before any new file gets one, the quota is known before a rebuild of the
// index writes anything, and kinds are counted from the index.
func (s *Store) openParts(ctx context.Context) (err error) {
	if s.codec, err = blob.NewCodec(); err != nil {
		return err
	}
	s.guard.init()
	s.handles.init(s)
	s.packs.init(s)
	s.flights.shared = func(err error) bool {
		return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
	}
	if err := s.scanDisk(); err != nil {
		return s.hostError(err)
	}
	if err := s.space.load(); err != nil {
		return err
	}
	if err := s.openIndex(ctx); err != nil {
		return err
	}
	s.reserveFile.allocate()
	return s.space.count(ctx, s.index.EachMeta)
}

// scanDisk counts bytes, finds the highest number, and removes files that were being written.
func (s *Store) scanDisk() error {
	for _, dir := range []string{packsDir, imagesDir, namesDir, pinsDir, quarantineDir, ""} {
		entries, err := s.fs.List(s.path(dir))
		if err != nil {
			return err
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), disk.TempPrefix) {
				if err := s.fs.Remove(s.path(dir, e.Name())); err != nil {
					return err
				}
				continue
			}
			// Names, pins and quarantine are small and not counted.
			if dir != packsDir && dir != imagesDir {
				continue
			}
			if err := s.countFile(dir, e.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// countFile counts one file of packs/ or images/. It ignores a file whose name is not ours,
// because it may be of a later version.
func (s *Store) countFile(dir, name string) error {
	id, ok := parsePack(name)
	if dir == imagesDir {
		var owner agentbox.Digest
		if id, owner, ok = parseImage(name); ok {
			s.handles.register(id, owner)
		}
	}
	if !ok {
		return nil // not ours
	}
	if id > s.nextID.Load() {
		s.nextID.Store(id)
	}
	f, err := s.fs.Open(s.path(dir, name), false)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if dir == packsDir {
		st.Allocated = st.Size // as it is counted when it is written
	}
	s.space.used += st.Allocated
	return err
}

// Close closes the store without waiting: calls under way fail. Everything that was flushed stays.
func (s *Store) Close() error {
	var errs []error
	if s.packs.s != nil {
		s.handles.close()
		errs = append(errs, s.packs.close())
	}
	if s.index != nil {
		errs = append(errs, s.index.Close())
	}
	return errors.Join(append(errs, s.lock.Close())...)
}
