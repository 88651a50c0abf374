package environment

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
)

// opened is the answer to a request for a channel.
type opened struct {
	ch   ssh.Channel
	reqs <-chan *ssh.Request
	err  error
}

// OpenChannel is client.OpenChannel with an end: when ctx is done, the connection has ended or the
// other end says nothing for AnswerTimeout, it returns. A refusal comes back as the
// *ssh.OpenChannelError it is; Invalid is for data that is too long to be sent; every other error
// has code Unavailable or is ctx's cause. The caller owns the channel and must take its requests.
//
// The answer that comes too late is closed by a goroutine that ends with the process at the latest:
// the library does not always notice that a connection has ended while it asks (golang/go#57531).
func OpenChannel(ctx context.Context, client *ssh.Client, kind string, extra []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	if err := checkMessageSize(extra); err != nil {
		return nil, nil, err
	}
	ask := func() (o opened) {
		o.ch, o.reqs, o.err = client.OpenChannel(kind, extra)
		return o
	}
	o, err := awaitAnswer(ctx, Ended(client), "open a channel", ask, func(o opened) {
		if o.err == nil {
			o.ch.Close()
			ssh.DiscardRequests(o.reqs)
		}
	})
	if err != nil {
		return nil, nil, err
	}
	return o.ch, o.reqs, openError(o.err)
}

// awaitAnswer returns what ask does, unless ctx is done, the connection has closed or AnswerTimeout
// has passed before. late then gets the answer that nobody wants any more, when it comes. what
// continues "the box did not".
func awaitAnswer[T any](ctx context.Context, gone <-chan struct{}, what string, ask func() T, late func(T)) (T, error) {
	answer := make(chan T, 1)
	go func() { answer <- ask() }()
	timer := time.NewTimer(AnswerTimeout)
	defer timer.Stop()
	var none T
	var err error
	select {
	case got := <-answer:
		return got, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-gone:
		err = connectionLostError(io.EOF)
	case <-timer.C:
		err = noAnswerError(what)
	}
	go func() { late(<-answer) }()
	return none, err
}

// connectionEnds has a channel for each live connection on which a channel was opened. It is closed
// when the connection has ended. It is global, and not part of a client, because the client is the
// library's.
var connectionEnds sync.Map

// Ended is closed when a connection has ended. One goroutine for each connection waits for its end.
func Ended(client *ssh.Client) <-chan struct{} {
	fresh := make(chan struct{})
	first, known := connectionEnds.LoadOrStore(client, fresh)
	if !known {
		go func() {
			_ = client.Wait()
			close(fresh)
			connectionEnds.Delete(client)
		}()
	}
	return first.(chan struct{})
}

// openError returns refusals unchanged, so that a relay can pass them on, and explains the rest.
func openError(err error) error {
	var refused *ssh.OpenChannelError
	if err == nil || errors.As(err, &refused) {
		return err
	}
	return connectionLostError(err)
}

// connectionLostError is the error for a connection that ended before an answer came.
func connectionLostError(err error) *agentbox.Error {
	return agentbox.Errorf(agentbox.Unavailable, "the connection to the box was lost: %w", lossError{err}).
		WithHint("agentbox show gives its state")
}

// lossError is what a connectionLostError wraps: why the connection ended.
type lossError struct{ error }

func (l lossError) Unwrap() error { return l.error }

// maxMessage bounds what one request carries, in bytes: some less than an SSH packet may have. A
// longer one would end the connection, with everything else that goes over it.
const maxMessage = 255 << 10

// checkMessageSize checks that the data of a request can be sent.
func checkMessageSize(data []byte) error {
	if len(data) > maxMessage {
		return agentbox.Errorf(agentbox.Invalid, "the command is too long: with its environment it takes %d KiB, at most %d", len(data)>>10, maxMessage>>10).
			WithHint("put the long part into a file")
	}
	return nil
}

// Request sends a channel request and waits for its reply, but not for ever. The errors are those
// of OpenChannel; the one of a channel that has closed wraps io.EOF. The late reply of a request
// that was given up is dropped with its goroutine, which ends with the channel: the caller closes
// it.
func Request(ctx context.Context, ch ssh.Channel, name string, payload []byte) (bool, error) {
	if err := checkMessageSize(payload); err != nil {
		return false, err
	}
	type reply struct {
		ok  bool
		err error
	}
	ask := func() (r reply) {
		r.ok, r.err = ch.SendRequest(name, true, payload)
		return r
	}
	r, err := awaitAnswer(ctx, nil, "answer "+name, ask, func(reply) {})
	if err == nil && r.err != nil {
		err = connectionLostError(r.err)
	}
	return r.ok && err == nil, err
}

// KeepAliveOptions configures KeepAlive. The supervisor has one for each guest.
type KeepAliveOptions struct {
	Interval  time.Duration // between two questions; positive
	Timeout   time.Duration // what one answer may take; positive
	Suspended func() bool   // tells whether the other end is frozen on purpose, and cannot answer; may be nil
}

// KeepAlive asks the other end for signs of life, and closes the client when two in a row are
// missing: one may be late on a busy host. It returns when ctx is done (nil) or the client has
// ended (why). It asks for a channel of an unknown type: the refusal shows that the server lives,
// and unlike a global request it queues behind no other.
func KeepAlive(ctx context.Context, client *ssh.Client, p KeepAliveOptions) error {
	tick := time.NewTicker(p.Interval)
	defer tick.Stop()
	missed := 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		// A machine that is frozen, as for a checkpoint, does not answer and still lives.
		if p.Suspended != nil && p.Suspended() {
			missed = 0
			continue
		}
		err := probe(ctx, client, p.Timeout)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil, p.Suspended != nil && p.Suspended():
			missed = 0
		case errors.Is(err, errUnresponsive) && missed == 0:
			missed++
		default:
			client.Close()
			return err
		}
	}
}

func probe(ctx context.Context, client *ssh.Client, within time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, errUnresponsive)
	defer cancel()
	ch, reqs, err := OpenChannel(ctx, client, "alive@agentbox", nil)
	var refused *ssh.OpenChannelError
	if errors.As(err, &refused) {
		return nil
	}
	if err == nil {
		end{ch, reqs}.abandon()
	}
	return err
}

var errUnresponsive = agentbox.Errorf(agentbox.Unavailable, "the box did not answer")

// copyBuffer is the most that one direction holds between the two windows of flow control.
const copyBuffer = 32 << 10

// pump copies until src ends, without ReadFrom and WriteTo, which add a buffer on a channel.
func pump(dst io.Writer, src io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, make([]byte, copyBuffer))
}
