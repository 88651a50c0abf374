package cachestore

import (
	"context"
	"time"
)

// scrubRate is in bytes per second; scrubEvery is from the end of one pass to the start of the
// next. At this rate a store of 100 GB takes under two hours.
const (
	scrubRate  = 16 << 20
	scrubEvery = 24 * time.Hour
)

// Scrub verifies the store again and again until ctx ends. It reports damage to OnDamage and in the
// log, and repairs it from src, which may be nil.
//
// It waits before the first pass, because a daemon that was just started has more urgent things to
// read. It logs the error of a pass and continues with the next. It runs in the caller's goroutine.
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
