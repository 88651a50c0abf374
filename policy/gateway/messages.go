package gateway

import (
	"io"
	"math"
)

// readMessages reads the messages of a server's WebSocket, each a JSON document, as they pass, and
// reports each that contains usage. The name of the model may be in an earlier message. An invalid
// frame ends the reading, not the stream.
func readMessages(body io.ReadWriteCloser, report usageFunc) io.ReadWriteCloser {
	tap := newTapWriter(func(r io.Reader) { parseMessages(r, report) })
	o := &tappedBody{ReadCloser: body, tap: tap, onEnd: func(bool) {}}
	return struct {
		io.ReadCloser
		io.Writer
	}{o, body}
}

// parseMessages parses frames until one is invalid or r ends. One message is one answer; the next
// starts with the model of the last. Control frames may come within a message and are skipped.
func parseMessages(r io.Reader, report usageFunc) {
	var a usageParser
	for message := false; ; {
		h, _, err := readFrameHeader(r)
		if err == nil {
			message, err = h.check(message)
		}
		if err != nil || h.mask != [4]byte{} { // servers do not mask
			return
		}
		to := io.Writer(&a)
		if h.isControl() {
			to = io.Discard
		}
		if _, err := io.CopyN(to, r, int64(min(h.length, math.MaxInt64))); err != nil {
			return
		}
		if message || h.isControl() {
			continue
		}
		if model, t := a.result(false); t.Unreported == 0 {
			report(model, t)
		}
		a = usageParser{model: a.model}
	}
}
