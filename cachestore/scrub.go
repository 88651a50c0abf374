package cachestore

import (
	"context"
	"time"
)

// ScrubOptions say how gently to look, and how often.
type ScrubOptions struct {
	Rate   int64         // bytes a second; 0: DefaultScrubRate
	Every  time.Duration // from the end of one pass to the start of the next; 0: DefaultScrubEvery
	Source Source        // repairs what is damaged; may be nil
}

// Defaults of ScrubOptions. At this rate a store of 100 GB takes under two hours.
const (
	DefaultScrubRate  = 16 << 20
	DefaultScrubEvery = 24 * time.Hour
)

// Scrub verifies the store again and again until ctx ends, and gives nil then. What it finds is in
// Damaged and in the log.
//
// It waits before the first pass, because a daemon that was just started has more urgent things to
// read. An error of a pass is logged and the next one tried. The caller's goroutine is the one that
// works.
func (s *Store) Scrub(ctx context.Context, o ScrubOptions) error {
	if o.Rate == 0 {
		o.Rate = DefaultScrubRate
	}
	if o.Every == 0 {
		o.Every = DefaultScrubEvery
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(o.Every):
		}
		if _, err := s.Verify(ctx, VerifyOptions{Rate: o.Rate, Source: o.Source}); err != nil && ctx.Err() == nil {
			s.log.Error("store: scrub", "error", err)
		}
	}
}
