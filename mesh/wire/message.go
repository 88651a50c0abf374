package wire

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"agentbox/agentbox"
)

// A connection has only this many answers made at the same time, each within answerTimeout. So a
// peer that asks a lot or reads slowly takes few resources.
const (
	maxAnswers    = 4
	answerTimeout = 30 * time.Second
)

// WriteMessage writes v as JSON after its length, four bytes big-endian, in one Write. The reader
// bounds the length.
func WriteMessage(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return agentbox.Errorf(agentbox.Internal, "encode a message: %w", err)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
	return err
}

// ReadMessage reads what WriteMessage wrote, at most that many bytes, into v. Corrupt when it is
// longer or no JSON, Unavailable when it is cut off. The caller sets the deadline. Lists in v that
// a peer could make long should bound themselves (identity.DecodeArray).
func ReadMessage(r io.Reader, v any, limit int) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return agentbox.Errorf(agentbox.Unavailable, "read a message: %w", err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if int64(n) > int64(limit) {
		return agentbox.Classify(agentbox.Corrupt, "a message of %d bytes, at most %d", n, limit)
	}
	// Memory grows with what arrives, not with what was announced.
	b, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err != nil || len(b) < int(n) {
		return agentbox.Errorf(agentbox.Unavailable, "a message was cut off after %d of %d bytes", len(b), n)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return agentbox.Classify(agentbox.Corrupt, "a message that is not one: %w", err)
	}
	return nil
}

// Ask sends a question on its own stream and reads the answer, at most that many bytes, until ctx
// ends. AnswerHandler serves it at the other end. Unavailable without an answer, Corrupt for a
// malformed one, Conflict when the peer ended the connection because it no longer takes us for a
// member.
func (c *Conn) Ask(ctx context.Context, question, answer any, limit int) error {
	s, err := c.OpenStream(ctx)
	if err != nil {
		return err
	}
	defer s.Abort()
	if deadline, ok := ctx.Deadline(); ok {
		_ = s.SetDeadline(deadline)
	}
	if err := WriteMessage(s, question); err != nil {
		return c.wrapError(err)
	}
	_ = s.Close()
	if err = ReadMessage(s, answer, limit); endedAsNonMember(err) {
		return c.wrapError(err)
	}
	return err
}

// AnswerHandler returns the Handler of a service of questions, of at most that many bytes, and
// answers. When reply fails, the stream just ends and the peer is not told why: reply logs what
// should be known.
func AnswerHandler[Q any](limit int, reply func(c *Conn, question Q) (answer any, err error)) Handler {
	return AnswerWithin(answerTimeout, limit, reply)
}

// AnswerWithin is AnswerHandler for answers that may take longer than a moment.
func AnswerWithin[Q any](timeout time.Duration, limit int, reply func(c *Conn, question Q) (answer any, err error)) Handler {
	return func(ctx context.Context, c *Conn) {
		// One that failed concerns none but its peer.
		c.EachStream(ctx, timeout, func(_ context.Context, s *Stream) error {
			var q Q
			err := ReadMessage(s, &q, limit)
			if err != nil {
				return err
			}
			answer, err := reply(c, q)
			if err != nil || WriteMessage(s, answer) != nil {
				return err
			}
			return s.Close()
		}, func(error) {})
	}
}

// EachStream answers what a peer asks until the connection ends, and returns when all answers have: each
// within timeout, 0 for none, a few at the same time. Their context ends with the connection. failed
// gets the errors.
func (c *Conn) EachStream(ctx context.Context, timeout time.Duration, answer func(context.Context, *Stream) error, failed func(error)) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var all errgroup.Group
	all.SetLimit(maxAnswers)
	for {
		s, err := c.AcceptStream(ctx)
		if err != nil {
			break
		}
		all.Go(func() error {
			defer s.Abort()
			if timeout > 0 {
				_ = s.SetDeadline(time.Now().Add(timeout))
			}
			if err := answer(ctx, s); err != nil {
				failed(err)
			}
			return nil
		})
	}
	stop()
	_ = all.Wait()
}
