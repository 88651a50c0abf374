package environment

import (
	"context"
	"sync"

	"golang.org/x/crypto/ssh"
)

// spare is a session channel opened ahead of need. Taking it saves a round trip, the slowest part
// of a short command where the environment is an emulated machine. There is at most one, ready or
// being opened, and it belongs to one connection: when that is replaced, it is dropped. It costs
// the environment a channel and starts nothing there.
type spare struct {
	ctx  context.Context // of the openings under way
	stop context.CancelFunc
	work sync.WaitGroup

	// mu guards what follows. opening is true from prepare until open has an answer.
	mu      sync.Mutex
	client  *ssh.Client // whose session ready is, or will be
	opening bool
	ready   *end
}

// newSpare has no session yet, and a context of its own: one opened ahead belongs to no client.
func newSpare() *spare {
	s := &spare{}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

func (s *spare) take(ctx context.Context, client *ssh.Client) (end, error) {
	defer s.prepare(client)
	if got := s.grab(client); got != nil {
		return *got, nil
	}
	ch, requests, err := OpenChannel(ctx, client, "session", nil)
	return end{ch, requests}, err
}

// grab takes the ready session, if it is client's and still open.
func (s *spare) grab(client *ssh.Client) *end {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.ready
	if got == nil {
		return nil
	}
	s.ready = nil
	if s.client != client {
		got.abandon()
		return nil
	}
	select {
	case <-got.requests: // closed, or a request that no environment makes before a command runs
		got.abandon()
		return nil
	default:
		return got
	}
}

// prepare opens a session of client in the background, unless there is one already.
func (s *spare) prepare(client *ssh.Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opening || s.ctx.Err() != nil || s.ready != nil && s.client == client {
		return
	}
	if s.ready != nil {
		s.ready.abandon()
		s.ready = nil
	}
	s.opening, s.client = true, client
	s.work.Go(func() { s.open(client) })
}

// open waits for the session, and keeps it if it is still wanted. It runs without mu, so that a
// slow environment holds nobody up.
func (s *spare) open(client *ssh.Client) {
	ch, requests, err := OpenChannel(s.ctx, client, "session", nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opening = false
	switch {
	case err != nil: // the next command meets the error and reports it
	case s.ctx.Err() != nil:
		end{ch, requests}.abandon()
	default:
		s.ready = &end{ch, requests}
	}
}

// drop closes the session and opens no more.
func (s *spare) drop() {
	s.stop()
	s.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready != nil {
		s.ready.abandon()
		s.ready = nil
	}
}
