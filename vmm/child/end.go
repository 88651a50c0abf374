package child

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"agentbox/agentbox"
)

// End is the end of a machine. A driver's machine embeds one, for the methods Done and Err of
// vmm.Machine, which may be called from any goroutine.
type End struct {
	killed atomic.Bool // by us
	done   chan struct{}
	err    error // why it ended; read it after done
}

func NewEnd() *End { return &End{done: make(chan struct{})} }

// Done implements vmm.Machine.
func (e *End) Done() <-chan struct{} { return e.done }

// Err implements vmm.Machine; it is nil while the machine runs.
func (e *End) Err() error {
	select {
	case <-e.done:
		return e.err
	default:
		return nil
	}
}

// Finish records, once, that the machine and everything of it is gone. why is asked for the reason
// unless we killed it.
func (e *End) Finish(why func() error) {
	if !e.killed.Load() {
		e.err = why()
	}
	close(e.done)
}

// Kill has kill end the processes of the machine, and waits for Finish. Such an end is no failure.
// It is idempotent.
func (e *End) Kill(kill func() error) error {
	select {
	case <-e.done:
		return nil
	default:
	}
	e.killed.Store(true)
	err := kill()
	<-e.done
	return err
}

// Explain replaces an error that looks like the end of the machine called name, since it is one of
// broken, by the reason of that end. It waits for the end at most limit. Errors of a context stay,
// for the caller gave up and the machine may be fine.
func (e *End) Explain(name string, err error, limit time.Duration, broken ...error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || !IsAny(err, broken) {
		return err
	}
	select {
	case <-e.done:
	case <-time.After(limit):
		return err
	}
	if e.err != nil {
		return e.err
	}
	return agentbox.Errorf(agentbox.Unavailable, "the machine %s has ended: %w", name, err)
}

// IsAny is errors.Is with several targets.
func IsAny(err error, targets []error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
