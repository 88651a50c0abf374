package child

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"agentbox/agentbox"
)

// End is how a machine comes to its end. A driver's machine embeds one, for the methods of
// vmm.Machine: Done and Err. They may be called from any goroutine.
type End struct {
	killed atomic.Bool // by us
	done   chan struct{}
	err    error // why it ended; read it after done
}

// NewEnd is that of a machine that begins.
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

// Reach says, once, that the machine has ended and everything of it is gone. why is asked for the
// reason unless we killed it, which is none.
func (e *End) Reach(why func() error) {
	if !e.killed.Load() {
		e.err = why()
	}
	close(e.done)
}

// Kill has kill end the processes of the machine, and waits for Reach. What ends by it is not taken
// for a failure. It is idempotent.
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

// Explain prefers why the machine called name ended to the broken socket its end looks like from
// here. broken are errors that are such a sign: then the end is near, but it is not waited for
// longer than limit. Errors of a context stay what they are, for the caller gave up and the machine
// may be fine.
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
