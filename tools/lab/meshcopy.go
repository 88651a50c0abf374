package main

import (
	"context"
	"io"
	"net"
	"os"
	"time"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
	meshwire "agentbox/mesh/wire"
)

// quicCopy is a service that sends a file on every stream that is opened. It is the baseline of
// what QUIC can do here.
const quicCopy meshwire.Service = "bench-copy-1"

// copyPort is where a baseline over TCP listens.
const copyPort = "7947"

// copies carries out the orders of baselines: they transfer the bytes of a file between machines,
// without chunks, digests or a store. get-tcp and get-quic read to the end and keep nothing.
func (n *meshNode) copies(ctx context.Context, o meshOrder) (meshReport, error) {
	switch o.Do {
	case "serve-tcp":
		l, err := net.Listen("tcp", o.Path)
		if err != nil {
			return meshReport{}, err
		}
		context.AfterFunc(ctx, func() { l.Close() })
		go n.serveTCP(l) // until the process ends
		return meshReport{}, nil
	case "get-tcp":
		start := time.Now()
		c, err := net.Dial("tcp", o.Path)
		if err != nil {
			return meshReport{}, err
		}
		defer c.Close()
		return drain(c, start)
	case "get-quic":
		start := time.Now()
		id, err := identity.ParsePeer(o.Path)
		if err != nil {
			return meshReport{}, err
		}
		c, err := n.wire.Dial(ctx, id, quicCopy)
		if err != nil {
			return meshReport{}, err
		}
		defer c.Close()
		s, err := c.OpenStream(ctx)
		if err == nil {
			_, err = s.Write([]byte{1})
		}
		if err != nil {
			return meshReport{}, err
		}
		return drain(s, start)
	}
	return meshReport{}, agentbox.Errorf(agentbox.Invalid, "no order %q", o.Do)
}

// drain reads to the end and reports the bytes and the time since start. It stores nothing, as a
// baseline of transport. Both ends are wrapped, so that the buffer is used and not one of the
// kernel's shortcuts between files and sockets.
func drain(r io.Reader, start time.Time) (meshReport, error) {
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r}, make([]byte, 256<<10))
	return meshReport{Took: time.Since(start), Bytes: n}, err
}

// serveTCP sends the image on every connection.
func (n *meshNode) serveTCP(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_ = n.sendImage(c) // the other end reports what it got
		c.Close()
	}
}

// handleCopy is the handler of quicCopy.
func (n *meshNode) handleCopy(ctx context.Context, c *meshwire.Conn) {
	s, err := c.AcceptStream(ctx)
	if err != nil {
		return
	}
	_ = n.sendImage(s)
	s.Close()
	<-c.Context().Done()
}

// sendImage writes the image, in large blocks.
func (n *meshNode) sendImage(w io.Writer) error {
	f, err := os.Open(n.image)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{f}, make([]byte, 256<<10))
	return err
}
