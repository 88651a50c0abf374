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
	fresh, err := s.openOrReplaceIndex()
	if err != nil {
		return err
	}
	if s.prints, err = blob.NewFingerprinter(s.index.Secret()); err != nil || !fresh {
		return err
	}
	return s.rebuild(ctx, nil)
}

// openOrReplaceIndex opens the index, and puts one aside that cannot be read. A fresh index knows
// nothing of the files in the store. An error of the disk is no reason to put anything aside: the
// next try may succeed, and a rebuild on a disk that fails would find damage everywhere.
func (s *Store) openOrReplaceIndex() (fresh bool, err error) {
	_, statErr := os.Stat(s.path(indexDir))
	s.index, err = index.Open(s.path(indexDir), s.space.room)
	if err == nil {
		return os.IsNotExist(statErr) && s.nextID.Load() > 0, nil // somebody removed it
	}
	if agentbox.CodeOf(err) == agentbox.NoSpace || isFull(err) || isIO(err) || isReadOnly(err) {
		return false, s.hostError(err)
	}
	s.log.Error("store: the index cannot be read and is made anew", "error", err)
	// It is kept under another name, for the person who looks for the cause. Nothing removes it but
	// a person.
	aside := s.path(fmt.Sprintf("%s%d", badIndexPrefix, s.cfg.Now().UnixNano()))
	if err := os.Rename(s.path(indexDir), aside); err != nil {
		return false, s.hostError(err)
	}
	s.index, err = index.Open(s.path(indexDir), s.space.room)
	return true, s.hostError(err)
}
