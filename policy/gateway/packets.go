package gateway

import (
	"context"
	"net"
	"sync"
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
	begun, t := time.Now(), &traffic{}
	stop := context.AfterFunc(ctx, func() { _ = c.Close(); _ = away.Close() })
	defer stop()
	relayDatagrams(c, away, t)
	g.audit.record(t.entry(f, v, dialledAddr(away), begun))
	return nil
}

// relayDatagrams returns when both directions have ended, and closes both connections.
func relayDatagrams(box, away net.Conn, t *traffic) {
	one := func(to countingWriter, from net.Conn) {
		copyDatagrams(to, from)
		_ = box.Close()
		_ = away.Close()
	}
	var back sync.WaitGroup
	back.Go(func() { one(countingWriter{box, &t.got}, away) })
	one(countingWriter{away, &t.sent}, box)
	back.Wait()
}

// copyDatagrams carries one direction until an error or silence. A datagram that cannot be sent,
// because the remote port is closed, also ends it.
func copyDatagrams(to countingWriter, from net.Conn) {
	b := make([]byte, maxDatagram)
	for {
		_ = from.SetReadDeadline(time.Now().Add(idlePackets))
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}
