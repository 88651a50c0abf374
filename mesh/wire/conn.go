package wire

import (
	"context"
	"io"
	"net/netip"
	"time"

	"agentbox/mesh/identity"
)

// Service is a protocol between peers. Its name is part of the ALPN, its version part of its name.
type Service string

// The services of agentbox. A change of a service's messages gets another version, so that peers of
// both speak what both know.
const (
	Roster    Service = "roster-1"    // member lists
	Gossip    Service = "gossip-1"    // who is here
	Catalogue Service = "catalogue-1" // what each peer has
	Blobs     Service = "blobs-1"     // pieces of manifests
	Clock     Service = "clock-1"     // the time, for people
)

// MaxDatagram is how many bytes SendDatagram takes on every path, one with an MTU of 1280 included.
const MaxDatagram = 1100

// Conn is an authenticated connection to one peer, for one service. Its methods may be called by
// many goroutines at once. Errors have code Unavailable once it has ended.
type Conn interface {
	// Peer is who the other side proved to be.
	Peer() identity.PeerID
	// Remote is where the other side is now.
	Remote() netip.AddrPort
	// OpenStream begins a stream. It waits while the other side has as many as it allows. The other
	// side learns of a stream with the first byte that is written to it.
	OpenStream(ctx context.Context) (Stream, error)
	// AcceptStream waits for a stream that the other side began.
	AcceptStream(ctx context.Context) (Stream, error)
	// SendDatagram sends bytes that may be lost, reordered, or come twice. It does not wait. The
	// bytes may be reused when it returns.
	SendDatagram(b []byte) error
	// ReceiveDatagram waits for a datagram. Those that nobody waits for are dropped after some.
	ReceiveDatagram(ctx context.Context) ([]byte, error)
	// PacketsReceived counts the QUIC packets that came so far.
	PacketsReceived() uint64
	// Context is done when the connection has ended; its cause says why.
	Context() context.Context
	// Close ends the connection, all its streams included. What was written and not acknowledged
	// may be lost: a side that wants an answer waits for it before it closes.
	Close() error
}

// Stream is one of the byte streams of a connection, in both directions.
type Stream interface {
	io.Reader
	io.Writer
	// Close ends our direction: the other side reads io.EOF after what was written. Reading goes
	// on.
	Close() error
	// Abort ends both directions at once: reads and writes fail, on both sides. What was written
	// before Close is delivered all the same. Every stream is aborted in the end (defer it), or it
	// counts against those that the connection may have; after Close and reading to io.EOF that
	// does nothing.
	Abort()
	SetDeadline(t time.Time) error
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}
