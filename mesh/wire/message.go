package wire

import (
	"encoding/binary"
	"encoding/json"
	"io"

	"agentbox/agentbox"
)

// WriteMessage writes v as JSON behind its length, four bytes big-endian, in one Write. Invalid
// when it has more than most bytes.
func WriteMessage(w io.Writer, v any, most int) error {
	b, err := json.Marshal(v)
	if err != nil {
		return agentbox.Errorf(agentbox.Internal, "encode a message: %w", err)
	}
	if len(b) > most {
		return agentbox.Errorf(agentbox.Invalid, "a message of %d bytes, at most %d", len(b), most)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
	return err
}

// ReadMessage reads what WriteMessage wrote, of at most so many bytes, into v. Corrupt when it is
// longer or no JSON, Unavailable when it is cut off. The caller sets the deadline.
func ReadMessage(r io.Reader, v any, most int) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return agentbox.Errorf(agentbox.Unavailable, "read a message: %w", err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if int64(n) > int64(most) {
		return agentbox.Errorf(agentbox.Corrupt, "a message of %d bytes, at most %d", n, most)
	}
	// What is read grows with what comes, not with what was announced.
	b, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err != nil || len(b) < int(n) {
		return agentbox.Errorf(agentbox.Unavailable, "a message was cut off after %d of %d bytes", len(b), n)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return agentbox.Errorf(agentbox.Corrupt, "a message that is not one: %w", err)
	}
	return nil
}
