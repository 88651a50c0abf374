package vmm

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
)

// Networked is the optional ability of a Machine to have a network card. Ask for it with a type
// assertion.
type Networked interface {
	// Link is the host's end of the cable: the same one for the machine's whole life, nil when the
	// machine was started without a card. What the guest sends waits in it, within a bound, until
	// somebody reads.
	Link() Link
}

// Link is a cable that carries Ethernet frames (without the checksum at their end) between a
// machine and its only peer, the host. It neither looks into frames nor drops any. One goroutine
// reads; any number may write.
type Link interface {
	// MTU is the most bytes a frame may carry behind its Ethernet header of 14 bytes: what both
	// ends set.
	MTU() int
	// ReadFrame waits for the guest's next frame and copies it to buf. A guest may send frames of
	// any length: one that buf has no room for is thrown away with ErrLongFrame, and the next call
	// reads the one after it. Any other error means that the cable is cut.
	ReadFrame(buf []byte) (int, error)
	// WriteFrame sends one frame, given in parts, to the guest. It waits while the guest takes
	// none, for as long as the machine is frozen. The parts stay the caller's.
	WriteFrame(parts ...[]byte) error
	// Close cuts the cable: reads and writes under way return an error. Idempotent. The machine
	// does so when it ends.
	Close() error
}

// Segmenter is the optional ability of a Link to carry a TCP segment longer than its MTU as one
// frame, which the guest's kernel takes as the segments it stands for. Ask for it with a type
// assertion.
type Segmenter interface {
	// MaxSegment is the most bytes of such a frame, all headers included.
	MaxSegment() int
	// WriteSegment is WriteFrame for a TCP segment over IPv4, of any length up to MaxSegment. Its
	// TCP checksum holds the sum of the pseudo header only, and nobody need complete it.
	WriteSegment(s Segment, parts ...[]byte) error
}

// Segment is what a Segmenter has to know of a frame.
type Segment struct {
	Headers  int // bytes before the payload
	TCP      int // where its TCP header begins
	Checksum int // where the checksum is in that
	Size     int // most bytes of payload of each segment it stands for; 0 when it stands for itself
}

// CableCut says that an error is one of a machine's cable.
func CableCut(err error) error { return fmt.Errorf("the machine's network cable: %w", err) }

// CloseOnce closes what may have been closed before.
func CloseOnce(c io.Closer) error {
	if err := c.Close(); !errors.Is(err, fs.ErrClosed) && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// ErrLongFrame is the error of ReadFrame for a frame that was thrown away because the buffer has no
// room for it.
var ErrLongFrame = errors.New("the guest sent a frame that is too long")
