package cachestore

import (
	"context"
	"fmt"
	"os"

	"agentbox/agentbox"
	"agentbox/cachestore/index"
)

// openIndex opens the index. One that cannot be read is put aside, and made anew.
func (s *Store) openIndex(ctx context.Context) (err error) {
	if err := s.loadDamage(); err != nil {
		return s.hostError(err)
	}
	if s.room() != nil {
		// gc must be able to work on a disk that is full: that is what the ballast is for.
		s.dropBallast()
		s.guard.collecting.Store(true)
		defer s.guard.collecting.Store(false)
	}
	_, statErr := os.Stat(s.path(indexDir))
	s.index, err = index.Open(s.path(indexDir), s.room)
	if err == nil {
		if os.IsNotExist(statErr) && s.nextID.Load() > 0 {
			return s.rebuild(ctx, nil) // somebody removed the index
		}
		return nil
	}
	if agentbox.CodeOf(err) == agentbox.NoSpace || isFull(err) || isIO(err) || isReadOnly(err) {
		return s.hostError(err)
	}
	s.log.Error("store: the index cannot be read and is made anew", "error", err)
	if err := s.putIndexAside(); err != nil {
		return err
	}
	if s.index, err = index.Open(s.path(indexDir), s.room); err != nil {
		return s.hostError(err)
	}
	return s.rebuild(ctx, nil)
}

func (s *Store) putIndexAside() error {
	aside := s.path(fmt.Sprintf("%s%d", badIndexPrefix, s.cfg.Now().UnixNano()))
	return s.hostError(os.Rename(s.path(indexDir), aside))
}
