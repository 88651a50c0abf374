package cachestore

import (
	"context"
	"fmt"
	"os"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/index"
)

// openIndex opens the index, and fills it from the files when it had to be made anew.
func (s *Store) openIndex(ctx context.Context) error {
	// Before the index, as a rebuild ends the quarantine of chunks that it finds.
	if err := s.quarantine.load(); err != nil {
		return err
	}
	if s.space.room() != nil {
		// gc must be able to work on a disk that is full: that is what the ballast is for.
		s.ballast.drop()
		s.guard.collecting.Store(true)
		defer s.guard.collecting.Store(false)
	}
	if err := s.openOrReplaceIndex(); err != nil {
		return err
	}
	var err error
	if s.prints, err = blob.NewFingerprinter(s.index.Secret()); err != nil {
		return err
	}
	unfinished, err := s.rebuilds.begun()
	if err != nil || !unfinished {
		return err
	}
	return s.rebuildNow(ctx)
}

// mendIndex makes the index whole where it has lost something: entries that are damaged, and
// manifests that names and pins keep and it does not know. gc would take what they need for
// garbage. Callers hold gcMu.
func (s *Store) mendIndex(ctx context.Context, kept map[agentbox.Digest]bool) error {
	damaged, err := s.index.DamagedKeys(ctx)
	if err != nil {
		return err
	}
	lost := len(damaged)
	for d := range kept {
		_, known, err := s.index.Meta(d)
		if err != nil {
			return err
		}
		// Reading all files again would find no more than it did the first time.
		if !known && !s.searched[d] {
			s.searched[d] = true
			lost++
		}
	}
	if lost == 0 {
		return nil
	}
	s.log.Error("store: the index has lost entries and is completed from the files", "entries", lost)
	if err := s.rebuilds.begin(); err != nil {
		return err
	}
	var b index.Batch
	for _, k := range damaged {
		b.DropDamaged(k)
	}
	if err := s.index.Apply(&b); err != nil {
		return err
	}
	return s.rebuildNow(ctx)
}

// rebuildNow makes the rebuild that was begun, and ends it.
func (s *Store) rebuildNow(ctx context.Context) error {
	if err := s.rebuild(ctx, nil); err != nil {
		return err
	}
	return s.rebuilds.end()
}

// openOrReplaceIndex opens the index, and puts one aside that cannot be read. A rebuild is begun
// for an index that knows nothing of the files in the store. An error of the disk is no reason to
// put anything aside: the next try may succeed, and a rebuild on a disk that fails would find
// damage everywhere.
func (s *Store) openOrReplaceIndex() error {
	_, err := os.Stat(s.path(indexDir))
	if os.IsNotExist(err) && s.nextID.Load() > 0 { // somebody removed it
		if err := s.rebuilds.begin(); err != nil {
			return err
		}
	}
	s.index, err = index.Open(s.path(indexDir), s.space.room)
	if err == nil {
		return nil
	}
	if agentbox.CodeOf(err) == agentbox.NoSpace || isFull(err) || isIO(err) || isReadOnly(err) {
		return s.hostError(err)
	}
	s.log.Error("store: the index cannot be read and is made anew", "error", err)
	if err := s.rebuilds.begin(); err != nil {
		return err
	}
	// It is kept under another name, for the person who looks for the cause. Nothing removes it but
	// a person.
	aside := s.path(fmt.Sprintf("%s%d", badIndexPrefix, s.cfg.Now().UnixNano()))
	if err := os.Rename(s.path(indexDir), aside); err != nil {
		return s.hostError(err)
	}
	s.index, err = index.Open(s.path(indexDir), s.space.room)
	return s.hostError(err)
}
