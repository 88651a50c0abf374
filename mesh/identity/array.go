package identity

import (
	"bytes"
	"encoding/json"
)

// DecodeArray reads a JSON array of at most that many elements; null is an empty one. Longer ones
// are Corrupt. json.Unmarshal would make all elements before anybody can count them, and an element
// that a peer writes as {} takes a hundred times as much memory as in its message.
func DecodeArray[T any](b []byte, limit int) ([]T, error) {
	in := json.NewDecoder(bytes.NewReader(b))
	switch t, err := in.Token(); {
	case err != nil:
		return nil, corrupt("%w", err)
	case t == nil:
		return nil, nil
	case t != json.Delim('['):
		return nil, corrupt("%v instead of a list", t)
	}
	var out []T
	for in.More() {
		if len(out) == limit {
			return nil, corrupt("a list of more than %d", limit)
		}
		var v T
		if err := in.Decode(&v); err != nil {
			return nil, corrupt("%w", err)
		}
		out = append(out, v)
	}
	if _, err := in.Token(); err != nil {
		return nil, corrupt("%w", err)
	}
	return out, nil
}

// UnknownPart returns nil if b is how the encoder writes understood, which was read from b. If there
// is more in it, it returns b without white space: that is what was signed, and it is written again
// as it is.
func UnknownPart(b []byte, understood any) ([]byte, error) {
	line, err := json.Marshal(json.RawMessage(b))
	if err != nil {
		return nil, err
	}
	again, err := json.Marshal(understood)
	if err != nil || bytes.Equal(again, line) {
		return nil, err
	}
	return line, nil
}
