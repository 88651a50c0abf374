package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/vmm/guest/protocol"
	"agentbox/vmm/runqueue"
)

// Client is one life of a guest. Its methods may be called from any goroutine. A request that the
// guest leaves unanswered for its whole limit ends the connection. A Client belongs to one lease,
// as its host key was made for it.
type Client struct {
	conn   *lifeConn
	ssh    *ssh.Client
	kernel string
	pids   func() []int // the machine's processes
	lost   atomic.Bool

	work sync.WaitGroup // requests under way, and the wait for the connection's end
}

// SSH is the connection, logged in as the box's user.
func (c *Client) SSH() *ssh.Client { return c.ssh }

// Kernel is what `uname -r` prints in the guest.
func (c *Client) Kernel() string { return c.kernel }

// Lost tells whether the connection has ended, so that nothing can be asked over it any more.
func (c *Client) Lost() bool { return c.lost.Load() }

// Close ends the host's part of this life and waits until nothing reads the stream any more. The
// guest does not notice and goes on until the next Hello. Open sessions see their connection fail.
func (c *Client) Close() error {
	err := c.conn.Close()
	c.work.Wait()
	return errors.Join(err, c.conn.Conn.SetDeadline(time.Time{}))
}

// How long the guest may take for each request, under emulation and on a busy host.
const (
	quickTimeout   = 30 * time.Second
	attachTimeout  = 60 * time.Second // a journal to replay, owners to change
	detachTimeout  = 30 * time.Second // processes to end, data to write
	quiesceTimeout = 60 * time.Second
	freezeTimeout  = 30 * time.Second
)

// Attach gives the guest its workspace and configuration, once after it was restored from a
// template. Services start in the background; Services tells how far they are.
func (c *Client) Attach(ctx context.Context, r protocol.AttachRequest) error {
	return c.call(ctx, attachTimeout, protocol.Attach, r, nil)
}

// Detach ends all user processes and services, syncs and unmounts the workspace.
func (c *Client) Detach(ctx context.Context) error {
	return c.call(ctx, detachTimeout, protocol.Detach, struct{}{}, nil)
}

// Quiesce readies the guest to become a template. No other request may follow.
func (c *Client) Quiesce(ctx context.Context) error {
	return c.call(ctx, quiesceTimeout, protocol.Quiesce, struct{}{}, nil)
}

// Freeze stops user processes and syncs; Thaw, or the next life, lets them go on.
func (c *Client) Freeze(ctx context.Context) error {
	return c.call(ctx, freezeTimeout, protocol.Freeze, struct{}{}, nil)
}

// Thaw sets the clock and lets user processes go on.
func (c *Client) Thaw(ctx context.Context) error {
	return c.call(ctx, quickTimeout, protocol.Thaw, protocol.ThawRequest{Time: time.Now()}, nil)
}

// SetClock steps the guest's clock to t when it is off.
func (c *Client) SetClock(ctx context.Context, t time.Time) error {
	return c.call(ctx, quickTimeout, protocol.Clock, protocol.ThawRequest{Time: t}, nil)
}

// Services returns the state of each service, in start order. Names and errors are the guest's
// unchecked text.
func (c *Client) Services(ctx context.Context) ([]protocol.ServiceStatus, error) {
	var list []protocol.ServiceStatus
	err := c.call(ctx, quickTimeout, protocol.Services, struct{}{}, &list)
	return list, err
}

// Stats returns what only the guest knows.
func (c *Client) Stats(ctx context.Context) (protocol.GuestStats, error) {
	var s protocol.GuestStats
	err := c.call(ctx, quickTimeout, protocol.Stats, struct{}{}, &s)
	return s, err
}

// maxRequest bounds a request's JSON in bytes. SSH ends the connection at a packet above 256 KiB,
// and the request's name and header need some of them.
const maxRequest = 255 << 10

// call sends one request and waits for its answer. Errors: Invalid when in is above maxRequest,
// Timeout when limit has passed, Unavailable when the guest or the connection failed, and that of a
// cancelled ctx. out may be nil.
func (c *Client) call(ctx context.Context, limit time.Duration, name string, in, out any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	payload, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	verb, _, _ := strings.Cut(name, "@")
	if len(payload) > maxRequest {
		return agentbox.Errorf(agentbox.Invalid, "what the box needs for %s is %d KiB, above the %d KiB that one message may have", verb, len(payload)>>10, maxRequest>>10).
			WithHint("make the box's environment and services smaller")
	}
	r := c.send(ctx, limit, name, payload)
	switch {
	case errors.Is(r.err, context.Canceled):
		return r.err
	case errors.Is(r.err, context.DeadlineExceeded):
		return agentbox.Errorf(agentbox.Timeout, "the guest did not answer %s within %v", name, limit).WithHint("see the box's console log")
	case r.err != nil:
		return agentbox.Errorf(agentbox.Unavailable, "ask the guest for %s: %w", name, r.err)
	case !r.ok:
		var f protocol.Failure
		if json.Unmarshal(r.answer, &f) != nil || f.Error == "" {
			f.Error = "refused without a reason"
		}
		failed := agentbox.Errorf(agentbox.Unavailable, "the guest failed to %s: %s", verb, clean(f.Error))
		if hint := userHint(f.Error); hint != "" {
			failed.Code = agentbox.Invalid
			failed.WithHint("%s", hint)
		}
		return failed
	case out != nil:
		if err := json.Unmarshal(r.answer, out); err != nil {
			return agentbox.Errorf(agentbox.Unavailable, "the guest's answer to %s: %w", name, err)
		}
	}
	return nil
}

type reply struct {
	ok     bool
	answer []byte
	err    error
}

// send makes a request that a silent guest cannot block. SSH itself waits for ever: if ctx ends
// early the wait goes on in the background, until limit has passed and the connection is closed.
// Its error is ctx's, or context.DeadlineExceeded after limit.
func (c *Client) send(ctx context.Context, limit time.Duration, name string, payload []byte) reply {
	got := make(chan reply, 1)
	late, answered := runqueue.WithTimeout(context.WithoutCancel(ctx), limit, c.pids)
	context.AfterFunc(late, func() {
		if context.Cause(late) == context.DeadlineExceeded {
			c.lost.Store(true)
			c.conn.Close()
		}
	})
	c.work.Go(func() {
		defer answered()
		ok, answer, err := c.ssh.SendRequest(name, true, payload)
		if err != nil {
			c.lost.Store(true)
			if context.Cause(late) == context.DeadlineExceeded {
				err = context.DeadlineExceeded // which is why the connection was closed
			}
		}
		got <- reply{ok, answer, err}
	})
	select {
	case r := <-got:
		return r
	case <-ctx.Done():
		return reply{err: ctx.Err()}
	case <-late.Done():
	}
	select {
	case r := <-got: // that is why
		return r
	default:
		return reply{err: context.DeadlineExceeded}
	}
}
