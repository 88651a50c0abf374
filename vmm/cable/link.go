// Package cable is our end of the network cable of a machine that is no virtual machine. It inspects
// no frame, and opens no device: a launcher in the machine's namespaces does.
package cable

import (
	"encoding/binary"
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"agentbox/vmm"
)

// Link is the cable: a packet socket on our end of a pair of interfaces, or a TAP, the other end of
// which the machine has. Frames that do not fit into the kernel's buffers are lost, as on any
// Ethernet. Each frame has a virtio-net header (packet(7), PACKET_VNET_HDR; IFF_VNET_HDR), so that it
// can be a TCP segment longer than the MTU. It implements vmm.Link and vmm.Segmenter. One goroutine
// reads; any number
// may write, since each frame is one system call.
type Link struct {
	file *os.File
	mtu  int
	raw  syscall.RawConn // of file: calls wait in Go's poller
	head [vnetLen]byte   // of the frame that is read
}

var _ vmm.Segmenter = (*Link)(nil)

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

// New takes over a non-blocking descriptor, also if it fails: a packet socket or a TAP that has a
// virtio-net header before each frame. mtu is the most bytes of a packet.
func New(fd, mtu int) (*Link, error) {
	l := &Link{file: os.NewFile(uintptr(fd), "cable"), mtu: mtu}
	var err error
	if l.raw, err = l.file.SyscallConn(); err != nil {
		return nil, vmm.LinkError(errors.Join(err, l.file.Close()))
	}
	return l, nil
}

func (l *Link) MTU() int { return l.mtu }

func (l *Link) MaxSegment() int { return maxSegment }

// ReadFrame reads the guest's next frame. No frame is longer than the 64 KiB of a segment, so a
// long one is truncated and no error. A frame with several segments is passed on as one. Its
// checksum may be incomplete: vmm/netstack verifies none.
func (l *Link) ReadFrame(buf []byte) (int, error) {
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
func (l *Link) WriteFrame(parts ...[]byte) error { return l.write([vnetLen]byte{}, parts) }

// WriteSegment implements vmm.Segmenter. The guest's side completes the checksum, also if Size is
// 0.
func (l *Link) WriteSegment(s vmm.Segment, parts ...[]byte) error {
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
func (l *Link) write(head [vnetLen]byte, parts [][]byte) error {
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

func (l *Link) Close() error { return vmm.CloseOnce(l.file) }
