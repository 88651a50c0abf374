package cachestore

import (
	"context"
	"fmt"
	"os"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/index"
)

// openIndex opens the index, and rebuilds it from the files if it is new or incomplete.
func (s *Store) openIndex(ctx context.Context) error {
	// Before the index, as a rebuild ends the quarantine of chunks that it finds.
	if err := s.quarantine.load(); err != nil {
		return err
	}
	if s.space.room() != nil {
		// gc must be able to work on a full disk.
		s.reserveFile.drop()
		s.guard.collecting.Store(true)
		defer s.guard.collecting.Store(false)
	}
	if err := s.openOrReplaceIndex(); err != nil {
		return err
	}
	var err error
	if s.fingerprints, err = blob.NewFingerprinter(s.index.Secret()); err != nil {
		return err
	}
	unfinished, err := s.rebuilds.begun()
	if err != nil || !unfinished {
		return err
	}
	return s.finishRebuild(ctx)
}

// completeIndex rebuilds the index if it has lost entries: if some are damaged, or if it lacks
// manifests with roots, whose chunks gc would take for garbage. Callers hold gcMu.
func (s *Store) completeIndex(ctx context.Context, kept map[agentbox.Digest]bool) error {
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
		// Reading all files again would not find more than the first time.
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
	return s.finishRebuild(ctx)
}

// finishRebuild carries out a rebuild whose mark exists, and removes the mark.
func (s *Store) finishRebuild(ctx context.Context) error {
	if err := s.rebuild(ctx, nil); err != nil {
		return err
	}
	return s.rebuilds.end()
}

// openOrReplaceIndex opens the index. It renames one that cannot be read, and starts a rebuild for
// a new index of a store with files. After an error of the disk it renames nothing: a retry may
// succeed, and a rebuild on a failing disk would find damage everywhere.
func (s *Store) openOrReplaceIndex() error {
	_, err := os.Stat(s.path(indexDir))
	if os.IsNotExist(err) && s.nextID.Load() > 0 { // it was removed
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
	s.log.Error("store: the index cannot be read and is rebuilt", "error", err)
	if err := s.rebuilds.begin(); err != nil {
		return err
	}
	// Keep it under another name, for people who look for the cause. Only people remove it.
	aside := s.path(fmt.Sprintf("%s%d", badIndexPrefix, s.cfg.Now().UnixNano()))
	if err := os.Rename(s.path(indexDir), aside); err != nil {
		return s.hostError(err)
	}
	s.index, err = index.Open(s.path(indexDir), s.space.room)
	return s.hostError(err)
}
