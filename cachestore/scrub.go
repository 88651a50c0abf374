package cachestore

import (
	"context"
	"time"
)

// How gently Scrub looks, in bytes a second, and how long it rests from the end of one pass to the
// start of the next. At this rate a store of 100 GB takes under two hours.
const (
	scrubRate  = 16 << 20
	scrubEvery = 24 * time.Hour
)

// Scrub verifies the store again and again until ctx ends. What it finds is in Damaged and in the
// log; src, which may be nil, repairs it.
//
// It waits before the first pass, because a daemon that was just started has more urgent things to
// read. An error of a pass is logged and the next one tried. The caller's goroutine is the one that
// works.
func (s *Store) Scrub(ctx context.Context, src Source) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(scrubEvery):
		}
		if _, err := s.Verify(ctx, VerifyOptions{Rate: scrubRate, Source: src}); err != nil && ctx.Err() == nil {
			s.log.Error("store: scrub", "error", err)
		}
	}
}
