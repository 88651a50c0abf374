package handover

import (
	"context"
	"testing"
	"time"
)

// What waits for an idle machine does not begin while it is not, and ends when it is not any more.
func TestWhileIdle(t *testing.T) {
	began := false
	whileIdle(t.Context(), nil, func(context.Context) bool { return false }, func(context.Context) { began = true })
	if began {
		t.Error("it began on a busy machine")
	}
	tick, answers := make(chan time.Time), make(chan bool, 1)
	answers <- true
	went := make(chan struct{})
	ended := make(chan error, 1)
	go whileIdle(t.Context(), tick, func(context.Context) bool { return <-answers }, func(ctx context.Context) {
		close(went)
		<-ctx.Done()
		ended <- ctx.Err()
	})
	<-went
	for _, idle := range []bool{true, true, false} {
		select {
		case err := <-ended:
			t.Fatalf("it ended while the machine was idle: %v", err)
		default:
		}
		tick <- time.Time{}
		answers <- idle
	}
	if err := <-ended; err != context.Canceled {
		t.Errorf("%v", err)
	}
	done := 0
	whileIdle(t.Context(), nil, func(context.Context) bool { return true }, func(context.Context) { done++ })
	if done != 1 {
		t.Errorf("it was done %d times", done)
	}
}
