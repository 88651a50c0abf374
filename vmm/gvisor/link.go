package gvisor

import (
	"encoding/binary"
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"agentbox/vmm"
	"agentbox/vmm/gvisor/plan"
)

// link is the cable: a packet socket on the other end of the pair of interfaces of which the
// sandbox has one. What comes too fast for the buffers of the two sockets is lost, as on any
// Ethernet. Before each frame stands a header as virtio-net has it (packet(7), PACKET_VNET_HDR), by
// which one frame carries a TCP segment of many times the MTU. It implements vmm.Link and
// vmm.Segmenter. One goroutine reads; any number write, since each frame is one system call.
type link struct {
	file *os.File
	// Of file, whose reads and writes wait in Go's poller and not in a thread.
	raw  syscall.RawConn
	head [vnetLen]byte // of the frame being read
}

var _ vmm.Segmenter = (*link)(nil)

// The header: flags, type, and in the host's byte order the length of all headers, the size of each
// segment, where the sum to be completed begins, and where in that it goes (virtio 1.2, 5.1.6).
const (
	vnetLen       = 10
	vnetNeedsSum  = 1
	vnetSegmentV4 = 1
)

// maxSegment is a little less than what the buffers of runsc's own card hold, which cut off what is
// longer. In bytes, all headers included.
const maxSegment = 60 << 10

// newLink takes over a packet socket that does not block, also when it fails. fd comes from the
// launcher, which made it inside of the machine's network namespace. From here on each frame has a
// header before it.
func newLink(fd int) (*link, error) {
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
		unix.Close(fd)
		return nil, vmm.CableCut(os.NewSyscallError("setsockopt", err))
	}
	l := &link{file: os.NewFile(uintptr(fd), "cable")}
	var err error
	if l.raw, err = l.file.SyscallConn(); err != nil {
		return nil, vmm.CableCut(errors.Join(err, l.file.Close()))
	}
	return l, nil
}

func (l *link) MTU() int { return plan.MTU }

func (l *link) MaxSegment() int { return maxSegment }

// ReadFrame gives the guest's next frame. A long one is no error here but cut off: none is longer
// than the 64 KiB that the kernel gives a segment. The header of an incoming frame is dropped: a
// frame with several segments is handed on as one, with a checksum that need not hold, for the
// network stack verifies none (vmm/netstack).
func (l *link) ReadFrame(buf []byte) (int, error) {
	var n int
	var err error
	waitErr := l.raw.Read(func(fd uintptr) bool {
		n, err = retried(func() (int, error) { return unix.Readv(int(fd), [][]byte{l.head[:], buf}) })
		return err != unix.EAGAIN
	})
	if err = errors.Join(waitErr, err); err != nil {
		return 0, vmm.CableCut(err)
	}
	return max(n-vnetLen, 0), nil
}

// WriteFrame implements vmm.Link. A header of zeros says that the frame stands for itself.
func (l *link) WriteFrame(parts ...[]byte) error { return l.write([vnetLen]byte{}, parts) }

// WriteSegment implements vmm.Segmenter. A segment that stands for itself (Size 0) still leaves its
// checksum to the guest's side.
func (l *link) WriteSegment(s vmm.Segment, parts ...[]byte) error {
	var h [vnetLen]byte
	h[0] = vnetNeedsSum
	if s.Size > 0 {
		h[1] = vnetSegmentV4
	}
	for i, v := range []int{s.Headers, s.Size, s.TCP, s.Checksum} {
		binary.NativeEndian.PutUint16(h[2+2*i:], uint16(v))
	}
	return l.write(h, parts)
}

// write sends one frame. The kernel takes it as a whole or not at all. A full buffer of the
// interface drops it (ENOBUFS) without an error, as Ethernet would: TCP sends it again.
func (l *link) write(head [vnetLen]byte, parts [][]byte) error {
	frame := append(append(make([][]byte, 0, len(parts)+1), head[:]), parts...)
	var err error
	waitErr := l.raw.Write(func(fd uintptr) bool {
		_, err = retried(func() (int, error) { return unix.Writev(int(fd), frame) })
		return err != unix.EAGAIN
	})
	if errors.Is(err, unix.ENOBUFS) {
		return nil // lost
	}
	if err = errors.Join(waitErr, err); err != nil {
		return vmm.CableCut(err)
	}
	return nil
}

// retried is a system call that no signal has interrupted.
func retried(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}

func (l *link) Close() error { return vmm.CloseOnce(l.file) }
