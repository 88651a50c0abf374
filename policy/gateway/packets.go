package gateway

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"agentbox/policy"
)

// maxDatagram is the size of the largest UDP datagram, in bytes.
const maxDatagram = 64 << 10

// idlePackets is how long a UDP flow may be silent, since UDP has no end of its own.
const idlePackets = 2 * time.Minute

// quicPort is the port on which browsers try HTTP/3.
const quicPort = 443

// Packets carries the datagrams of an accepted UDP flow, one for each Read or Write of c, and
// returns when it is over, with both ends closed. It decides again, as Accept did. A flow that is
// silent for idlePackets is over.
func (g *Gateway) Packets(ctx context.Context, f policy.Flow, c net.Conn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done, err := g.begin(g.conns, &activeFlow{flow: f, end: cancel})
	if err != nil {
		return err
	}
	defer done()
	v := g.rules().connect(f)
	if !v.Allow {
		return g.deny(f, v)
	}
	away, err := g.up.dial(ctx, "udp", f)
	if err != nil {
		return err
	}
	started, t := time.Now(), &traffic{}
	stop := context.AfterFunc(ctx, func() { _ = c.Close(); _ = away.Close() })
	defer stop()
	relayDatagrams(c, away, t)
	g.audit.record(t.entry(f, v, dialledAddr(away), started))
	return nil
}

// relayDatagrams returns when both directions have ended, and closes both connections.
func relayDatagrams(box, away net.Conn, t *traffic) {
	one := func(to, from net.Conn, n *atomic.Int64) {
		copyDatagrams(to, from, n)
		_ = box.Close()
		_ = away.Close()
	}
	var back sync.WaitGroup
	back.Go(func() { one(box, away, &t.received) })
	one(away, box, &t.sent)
	back.Wait()
}

// copyDatagrams carries one direction until an error, or until both directions have been silent for
// idlePackets. A datagram that cannot be sent, because the remote port is closed, also ends it.
func copyDatagrams(to, from net.Conn, n *atomic.Int64) {
	w, b := countingWriter{to, n}, make([]byte, maxDatagram)
	_ = from.SetReadDeadline(time.Now().Add(idlePackets))
	for {
		size, err := from.Read(b)
		if err != nil {
			return
		}
		if _, err := w.Write(b[:size]); err != nil {
			return
		}
		// A flow may go one way only, so each datagram counts for both directions.
		late := time.Now().Add(idlePackets)
		_ = from.SetReadDeadline(late)
		_ = to.SetReadDeadline(late)
	}
}
