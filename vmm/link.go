package vmm

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
)

// Networked is the optional ability of a Machine to have a network card.
type Networked interface {
	// Link is the host's end of the machine's link, the same one for the machine's whole life, nil
	// for a machine without a card. What the guest sends waits in it, within a bound, until
	// somebody reads.
	Link() Link
}

// Link carries Ethernet frames (without the checksum at their end) between a machine and its only
// peer, the host. It neither inspects nor drops frames. One goroutine reads; any number may write.
type Link interface {
	// MTU is the most bytes that a frame may carry after its Ethernet header of 14 bytes; both ends
	// set it.
	MTU() int
	// ReadFrame waits for the guest's next frame and copies it to buf. A guest may send frames of
	// any length: one that does not fit is dropped with ErrLongFrame, and the next call reads the
	// one after it. Any other error means that the link is closed.
	ReadFrame(buf []byte) (int, error)
	// WriteFrame sends one frame, given in parts, to the guest. It waits while the guest takes
	// none, for as long as the machine is frozen. The parts stay the caller's.
	WriteFrame(parts ...[]byte) error
	// Close closes the link: pending reads and writes return an error. Idempotent. The machine does
	// so when it ends.
	Close() error
}

// Segmenter is the optional ability of a Link to carry a TCP segment longer than its MTU as one
// frame, which the guest's kernel treats as the segments it stands for.
type Segmenter interface {
	// MaxSegment is the most bytes of such a frame, headers included.
	MaxSegment() int
	// WriteSegment is WriteFrame for a TCP segment over IPv4 of up to MaxSegment bytes. Its TCP
	// checksum holds the sum of the pseudo header only; nobody need complete it.
	WriteSegment(s Segment, parts ...[]byte) error
}

// Segment describes a frame for a Segmenter.
type Segment struct {
	Headers  int // bytes before the payload
	TCP      int // where its TCP header begins
	Checksum int // where the checksum is in that
	Size     int // most bytes of payload of each segment it stands for; 0 when it stands for itself
}

// LinkError marks an error as one of a machine's link.
func LinkError(err error) error { return fmt.Errorf("the machine's network link: %w", err) }

// CloseOnce closes c, and ignores that it was closed before.
func CloseOnce(c io.Closer) error {
	if err := c.Close(); !errors.Is(err, fs.ErrClosed) && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// ErrLongFrame is the error of ReadFrame for a frame that it dropped because the buffer is too
// short.
var ErrLongFrame = errors.New("the guest sent a frame that is too long")
