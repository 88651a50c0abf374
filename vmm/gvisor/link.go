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

// link is the cable: a packet socket on our end of a pair of interfaces, the other end of which the
// sandbox has. Frames that do not fit into the buffers of the sockets are lost, as on any Ethernet.
// Each frame has a virtio-net header (packet(7), PACKET_VNET_HDR), so that it can be a TCP segment
// longer than the MTU. link implements vmm.Link and vmm.Segmenter. One goroutine reads; any number
// may write, since each frame is one system call.
type link struct {
	file *os.File
	raw  syscall.RawConn // of file: calls wait in Go's poller
	head [vnetLen]byte   // of the frame that is read
}

var _ vmm.Segmenter = (*link)(nil)

// The header (virtio 1.2, 5.1.6) has flags and type, and in the host's byte order the length of all
// headers, the size of a segment, the offset from which the checksum is computed, and the offset
// after that of the checksum.
const (
	vnetLen       = 10
	vnetNeedsSum  = 1
	vnetSegmentV4 = 1
)

// maxSegment is the most bytes of a segment, headers included. The buffers of runsc's interface,
// which truncates longer ones, are a little larger.
const maxSegment = 60 << 10

// newLink takes over a non-blocking packet socket, also if it fails. The launcher made fd in the
// machine's network namespace.
func newLink(fd int) (*link, error) {
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
		unix.Close(fd)
		return nil, vmm.LinkError(os.NewSyscallError("setsockopt", err))
	}
	l := &link{file: os.NewFile(uintptr(fd), "cable")}
	var err error
	if l.raw, err = l.file.SyscallConn(); err != nil {
		return nil, vmm.LinkError(errors.Join(err, l.file.Close()))
	}
	return l, nil
}

func (l *link) MTU() int { return plan.MTU }

func (l *link) MaxSegment() int { return maxSegment }

// ReadFrame reads the guest's next frame. No frame is longer than the 64 KiB of a segment, so a
// long one is truncated and no error. A frame with several segments is passed on as one. Its
// checksum may be incomplete: vmm/netstack verifies none.
func (l *link) ReadFrame(buf []byte) (int, error) {
	var n int
	var err error
	waitErr := l.raw.Read(func(fd uintptr) bool {
		n, err = retried(func() (int, error) { return unix.Readv(int(fd), [][]byte{l.head[:], buf}) })
		return err != unix.EAGAIN
	})
	if err = errors.Join(waitErr, err); err != nil {
		return 0, vmm.LinkError(err)
	}
	return max(n-vnetLen, 0), nil
}

// WriteFrame implements vmm.Link. With a header of zeros, the frame is sent as it is.
func (l *link) WriteFrame(parts ...[]byte) error { return l.write([vnetLen]byte{}, parts) }

// WriteSegment implements vmm.Segmenter. The guest's side completes the checksum, also if Size is
// 0.
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

// write sends one frame, completely or not at all. If the interface's buffer is full (ENOBUFS), the
// frame is lost, as on Ethernet, and TCP sends it again.
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
		return vmm.LinkError(err)
	}
	return nil
}

// retried repeats a system call while signals interrupt it.
func retried(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}

func (l *link) Close() error { return vmm.CloseOnce(l.file) }
