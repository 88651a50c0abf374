package gateway

import (
	"encoding/binary"
	"io"
)

// frameHeader is the header of a WebSocket frame (RFC 6455).
type frameHeader struct {
	fin      bool // the last one of its message
	reserved bool // it has bits that belong to extensions
	opcode   byte
	length   uint64  // of the payload
	mask     [4]byte // all zeros without one
}

// readFrameHeader reads the header of a frame, 2 to 14 bytes, and nothing of its payload. raw has
// the bytes that were read, also before an error, so that they can be passed on. A length in a
// longer form than necessary is accepted.
func readFrameHeader(r io.Reader) (h frameHeader, raw []byte, err error) {
	raw = make([]byte, 0, 14)
	take := func(n int) []byte { // zeros behind an error
		b := raw[len(raw) : len(raw)+n]
		if err == nil {
			n, err = io.ReadFull(r, b)
			raw = raw[:len(raw)+n]
		}
		return b
	}
	b := take(2)
	if err != nil {
		return h, raw, err
	}
	h = frameHeader{fin: b[0]&0x80 != 0, reserved: b[0]&0x70 != 0, opcode: b[0] & 0x0f, length: uint64(b[1] & 0x7f)}
	masked := b[1]&0x80 != 0
	switch h.length {
	case 126:
		h.length = uint64(binary.BigEndian.Uint16(take(2)))
	case 127:
		h.length = binary.BigEndian.Uint64(take(8))
	}
	if masked {
		copy(h.mask[:], take(4))
	}
	return h, raw, err
}

// control tells whether it is a control frame, which may come in the middle of a message.
func (f frameHeader) isControl() bool { return f.opcode&0x08 != 0 }

// check checks the header of the next frame and tells whether a message is unfinished after it;
// message tells whether one was before it. It returns errInvalidFrame for what RFC 6455 forbids
// without extensions: reserved bits, unknown opcodes, long or fragmented control frames, a message
// inside a message.
func (f frameHeader) check(message bool) (bool, error) {
	const continuation, binary, closing, pong, longestControl = 0, 2, 8, 10, 125
	known := f.opcode <= binary || f.opcode >= closing && f.opcode <= pong
	switch {
	case f.reserved || !known:
		return message, errInvalidFrame
	case f.isControl() && (!f.fin || f.length > longestControl):
		return message, errInvalidFrame
	case f.isControl():
		return message, nil
	case (f.opcode == continuation) != message:
		return message, errInvalidFrame
	}
	return !f.fin, nil
}
