package qemu

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"

	"agentbox/vmm"
	"agentbox/vmm/guest/protocol"
)

// link implements vmm.Link with QEMU's framing of a stream socket: 4 bytes of length, big-endian,
// before each frame. When the socket's buffer is full, QEMU takes no more frames from the guest, so
// none is lost.
type link struct {
	conn net.Conn
	// Only the one goroutine that reads uses it.
	in *bufio.Reader

	mu sync.Mutex // one frame is written at a time
	// The length before a frame, here to avoid an allocation.
	head [4]byte
}

// linkBuffer holds several frames of any size, so that many small ones are read at once.
const linkBuffer = 256 << 10

func newLink(conn net.Conn) *link {
	return &link{conn: conn, in: bufio.NewReaderSize(conn, linkBuffer)}
}

func (l *link) MTU() int { return protocol.NetworkMTU }

// ReadFrame implements vmm.Link. The length is the guest's claim: it is used to skip, never to
// allocate.
func (l *link) ReadFrame(buf []byte) (int, error) {
	var head [4]byte
	if _, err := io.ReadFull(l.in, head[:]); err != nil {
		return 0, vmm.LinkError(err)
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	if n > int64(len(buf)) {
		if _, err := io.CopyN(io.Discard, l.in, n); err != nil {
			return 0, vmm.LinkError(err)
		}
		return 0, vmm.ErrLongFrame
	}
	if _, err := io.ReadFull(l.in, buf[:n]); err != nil {
		return 0, vmm.LinkError(err)
	}
	return int(n), nil
}

// WriteFrame implements vmm.Link, with one system call.
func (l *link) WriteFrame(parts ...[]byte) error {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	binary.BigEndian.PutUint32(l.head[:], uint32(n))
	frame := net.Buffers(slices.Insert(slices.Clone(parts), 0, l.head[:]))
	if _, err := frame.WriteTo(l.conn); err != nil {
		return vmm.LinkError(err)
	}
	return nil
}

func (l *link) Close() error { return vmm.CloseOnce(l.conn) }
