package gossip

import (
	"context"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

const (
	// ackTimeout is how long a peer may fail to acknowledge what we send before the connection is
	// considered dead: after sleep or a change of address it would swallow everything for half a
	// minute.
	ackTimeout = 3 * time.Second
	// dialPause is the minimum pause after a failed dial: memberlist sends to an absent peer every
	// second.
	dialPause = 2 * time.Second
	dialTime  = 3 * time.Second
	// maxWaiting bounds the packets that wait for a connection.
	maxWaiting = 16
)

// link manages the connections to one peer: the newest one, whichever side opened it, and the
// packets that wait for one. Both sides may open one at the same time; each uses its newest and
// reads both. mu guards all fields.
type link struct {
	t    *transport
	peer identity.PeerID

	mu sync.Mutex
	// conn is the newest connection, nil when none is believed to be alive.
	conn     *wire.Conn
	asked    time.Time     // when something was sent first since the connection was last known to be alive
	received uint64        // packets that had come by then
	dialling chan struct{} // closed when the dial that goes on has ended
	failed   time.Time     // when the last dial failed
	err      error         // why there is no connection
	// waiting are packets that wait for a connection, the oldest first; beyond maxWaiting they are
	// lost.
	waiting [][]byte
}

// send sends a packet, or keeps it for a connection. No error: it may arrive, as with UDP.
func (l *link) send(b []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.usable()
	if c == nil {
		if l.dialling == nil && time.Since(l.failed) < dialPause {
			return agentbox.Classify(agentbox.Unavailable, "peer %s: %w", l.peer.Short(), l.err)
		}
		if len(l.waiting) < maxWaiting {
			l.waiting = append(l.waiting, append([]byte(nil), b...))
		}
		l.dial()
		return nil
	}
	if l.asked.IsZero() {
		l.asked, l.received = time.Now(), c.PacketsReceived()
	}
	return c.SendDatagram(b)
}

// usable returns the connection if it seems alive: QUIC acknowledges what we send at once, whether
// or not the peer has an answer.
func (l *link) usable() *wire.Conn {
	if l.conn == nil {
		return nil
	}
	if !l.asked.IsZero() && l.conn.PacketsReceived() > l.received {
		l.asked = time.Time{}
	}
	if l.conn.Context().Err() == nil && (l.asked.IsZero() || time.Since(l.asked) < ackTimeout) {
		return l.conn
	}
	l.conn.Close()
	l.conn = nil
	return nil
}

// dial starts to connect, unless that is under way. The channel is closed when the attempt has
// ended; the connection, if any, is in use by then.
func (l *link) dial() <-chan struct{} {
	if l.dialling != nil {
		return l.dialling
	}
	done := make(chan struct{})
	begun := l.t.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(l.t.ctx, dialTime)
		defer cancel()
		c, err := l.t.node.Dial(ctx, l.peer, wire.Gossip)
		l.mu.Lock()
		l.dialling = nil
		if err != nil {
			l.failed, l.err, l.waiting = time.Now(), err, nil
		} else {
			l.use(c)
		}
		l.mu.Unlock()
		close(done)
		if err == nil {
			l.t.read(l, c)
		}
	})
	if !begun {
		l.failed, l.err, l.waiting = time.Now(), errClosed, nil
		close(done)
		return done
	}
	l.dialling = done
	return done
}

// adopt makes a connection the one in use, and sends the packets that waited for it.
func (l *link) adopt(c *wire.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.use(c)
}

// use is adopt for callers that hold mu.
func (l *link) use(c *wire.Conn) {
	l.conn, l.asked, l.failed, l.err = c, time.Time{}, time.Time{}, errGone
	for _, b := range l.waiting {
		_ = c.SendDatagram(b)
	}
	l.waiting = nil
}

// open opens a stream until ctx ends. It connects first if need be.
func (l *link) open(ctx context.Context) (*wire.Stream, error) {
	l.mu.Lock()
	c := l.usable()
	var dialled <-chan struct{}
	if c == nil {
		dialled = l.dial()
	}
	l.mu.Unlock()
	if c == nil {
		select {
		case <-dialled:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		l.mu.Lock()
		c = l.usable()
		err := l.err
		l.mu.Unlock()
		if c == nil {
			return nil, err
		}
	}
	return c.OpenStream(ctx)
}

// drop closes the connection, because the path to the peer has changed.
func (l *link) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		l.conn.Close()
	}
	l.conn, l.failed = nil, time.Time{}
}
