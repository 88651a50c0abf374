package environment

import (
	"context"
	"errors"
	"io"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
)

type opened struct {
	ch   ssh.Channel
	reqs <-chan *ssh.Request
	err  error
}

// openChannel is client.OpenChannel with an end: when ctx is done or the other end says nothing for AnswerTimeout, it
// returns. The answer that comes too late is closed by a goroutine that ends with the connection at the latest.
func openChannel(ctx context.Context, client *ssh.Client, kind string, extra []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	answer := make(chan opened, 1)
	go func() {
		var o opened
		o.ch, o.reqs, o.err = client.OpenChannel(kind, extra)
		answer <- o
	}()
	timer := time.NewTimer(AnswerTimeout)
	defer timer.Stop()
	select {
	case o := <-answer:
		return o.ch, o.reqs, openError(o.err)
	case <-ctx.Done():
		go discard(answer)
		return nil, nil, context.Cause(ctx)
	case <-timer.C:
		go discard(answer)
		return nil, nil, silent("open a channel")
	}
}

func discard(answer <-chan opened) {
	if o := <-answer; o.err == nil {
		o.ch.Close()
		ssh.DiscardRequests(o.reqs)
	}
}

// openError leaves refusals as they are, so that a relay can pass them on, and explains everything else.
func openError(err error) error {
	var refused *ssh.OpenChannelError
	if err == nil || errors.As(err, &refused) {
		return err
	}
	return lost(err)
}

func lost(err error) *agentbox.Error {
	return agentbox.Errorf(agentbox.Unavailable, "the connection to the box was lost: %w", err).
		WithHint("agentbox show tells what became of it")
}

// request sends a channel request and waits for its reply, but not for ever.
func request(ctx context.Context, ch ssh.Channel, name string, payload []byte) (bool, error) {
	type reply struct {
		ok  bool
		err error
	}
	answer := make(chan reply, 1)
	go func() {
		ok, err := ch.SendRequest(name, true, payload)
		answer <- reply{ok, err}
	}()
	timer := time.NewTimer(AnswerTimeout)
	defer timer.Stop()
	select {
	case r := <-answer:
		if r.err != nil {
			return false, lost(r.err)
		}
		return r.ok, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case <-timer.C:
		return false, silent("answer " + name)
	}
}

// KeepAlive asks the other end for a sign of life every interval and closes the client when none comes within timeout. It
// returns when ctx is done (nil) or the client has ended (why). A channel of a kind nobody has is what it asks for: the
// refusal shows that the server lives, and unlike a global request it waits behind no other.
func KeepAlive(ctx context.Context, client *ssh.Client, interval, timeout time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		ask, cancel := context.WithTimeoutCause(ctx, timeout, errNoLife)
		ch, reqs, err := openChannel(ask, client, "alive@agentbox", nil)
		cancel()
		var refused *ssh.OpenChannelError
		switch {
		case err == nil:
			go ssh.DiscardRequests(reqs)
			ch.Close()
		case ctx.Err() != nil:
			return nil
		case !errors.As(err, &refused):
			client.Close()
			return err
		}
	}
}

var errNoLife = agentbox.Errorf(agentbox.Unavailable, "the box gave no sign of life")

// copyBuffer is what one direction of a stream holds at most between the two windows of flow control.
const copyBuffer = 32 << 10

// pump copies until src ends. It hides ReadFrom and WriteTo: on a channel they would only cost a second buffer.
func pump(dst io.Writer, src io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, make([]byte, copyBuffer))
}
