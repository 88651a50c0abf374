package netstack

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"io"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"

	"agentbox/vmm"

	"gvisor.dev/gvisor/pkg/tcpip/checksum"
)

// longCable carries long segments, as a kernel does that need not cut them.
type longCable struct {
	*cable
	long  atomic.Int64 // segments longer than the MTU
	wrong atomic.Int64 // those whose description does not fit them
}

func (l *longCable) MTU() int        { return 1500 }
func (l *longCable) MaxSegment() int { return 60 << 10 }

// WriteSegment completes the checksum where it was told to, and the guest verifies it.
func (l *longCable) WriteSegment(s vmm.Segment, parts ...[]byte) error {
	f := slices.Concat(parts...)
	payload := len(f) - s.Headers
	if s.TCP != etherLen+ipLen || s.Headers != s.TCP+int(f[s.TCP+12]>>4)*4 || len(f) > etherLen+l.MaxSegment() || (s.Size > 0) != (payload > 1500-ipLen-tcpLen) {
		l.wrong.Add(1)
	}
	if s.Size > 0 {
		l.long.Add(1)
	}
	binary.BigEndian.PutUint16(f[s.TCP+s.Checksum:], ^checksum.Checksum(f[s.TCP:], 0))
	return l.WriteFrame(f)
}

func TestLongSegments(t *testing.T) {
	sent := make([]byte, 4<<20)
	if _, err := rand.Read(sent); err != nil {
		t.Fatal(err)
	}
	p := (&policy{more: make(chan struct{}, 1)}).allowAll()
	p.stream = func(_ context.Context, _ Destination, c Conn) error {
		_, err := c.Write(sent)
		return err
	}
	c := &longCable{cable: newCable()}
	s, err := New(c, p)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Close() })
	b := plugIn(t, c.cable)
	conn, err := b.dial(t, netip.MustParseAddrPort("192.0.2.1:4000"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("of %d bytes %d came (%v), or others", len(sent), len(got), err)
	}
	if c.wrong.Load() > 0 || c.long.Load() == 0 {
		t.Errorf("%d segments were longer than the cable's packets, and %d were not what was said of them", c.long.Load(), c.wrong.Load())
	}
}
