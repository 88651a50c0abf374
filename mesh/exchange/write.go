package exchange

import (
	"context"
	"encoding/binary"
	"time"
)

// write sends what waits: first news and requests, then a frame of a piece, and so on. A piece goes
// out in frames of dataSize, so that a request need not wait behind all of it. It is the session's
// only writer, and ends with its ctx or when the peer takes nothing for writeTimeout.
func (s *session) write() error {
	frame := make([]byte, 0, headerSize+4+dataSize)
	for {
		control, o := s.next()
		if err := s.put(control); err != nil {
			return err
		}
		if o == nil {
			if control == nil {
				select {
				case <-s.wake:
				case <-s.ctx.Done():
					return context.Cause(s.ctx)
				}
			}
			continue
		}
		n := min(dataSize, len(o.b))
		if err := s.n.pace(s.ctx, n); err != nil {
			return err
		}
		frame = append(frame[:0], byte(frameData))
		frame = binary.BigEndian.AppendUint32(frame, uint32(4+n))
		frame = binary.BigEndian.AppendUint32(frame, o.id)
		frame = append(frame, o.b[:n]...)
		if err := s.put(frame); err != nil {
			return err
		}
		s.wrote(o, n)
	}
}

// next takes the frames that wait, and the piece of which a frame comes after them. It announces
// new pieces in as few frames as possible.
func (s *session) next() (control []byte, o *outgoing) {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	for len(s.haves) > 0 {
		part := s.haves[:min(len(s.haves), maxNumbers)]
		s.control = appendFrame(s.control, frameHave, encodeNumbers(nil, part)...)
		s.haves = s.haves[len(part):]
	}
	for len(s.out) > 0 && s.out[0].cancelled {
		s.control = appendFrame(s.control, frameNone, idBytes(s.out[0].id)...)
		s.finish(s.out[0])
	}
	if len(s.out) > 0 {
		o = s.out[0]
		o.moved = time.Now()
		if o.head != nil {
			s.control = appendFrame(s.control, framePiece, o.head...)
			o.head = nil
		}
	}
	control, s.control = s.control, nil
	return control, o
}

// finish removes a piece from those being sent. The caller holds mu.
func (s *session) finish(o *outgoing) {
	s.out = s.out[1:]
	delete(s.n.sending, o)
	s.n.wakeUp.Notify()
}

// put writes to the stream, within writeTimeout: a peer that reads nothing would hold a goroutine
// and a piece of ours forever.
func (s *session) put(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if err := s.stream.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := s.stream.Write(b)
	return err
}

// wrote records that n bytes of a piece are written, which does not mean that the peer has them.
// After the last, the buffer is recycled, and upload may read the next piece.
func (s *session) wrote(o *outgoing, n int) {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	s.n.trafficOf(s.peer).Sent += int64(n)
	o.b = o.b[n:]
	o.moved, s.busy = time.Now(), time.Now()
	if len(o.b) == 0 && len(s.out) > 0 && s.out[0] == o {
		if o.whole != nil {
			recycle(o.whole)
		}
		s.finish(o)
	}
}

// pace waits until that many bytes may be sent. All sessions share the limit.
func (n *Node) pace(ctx context.Context, bytes int) error {
	if n.limit == nil {
		return nil
	}
	return n.limit.WaitN(ctx, bytes)
}
