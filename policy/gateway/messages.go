package gateway

import (
	"io"
	"math"
)

// readMessages reads along the messages of a server's WebSocket, each a JSON document, and tells of
// each that says what it used: one for each answer. The name of the model may have been in an
// earlier one. The bytes pass as they are; what is no frame ends the listening.
func readMessages(body io.ReadWriteCloser, report usageFunc) io.ReadWriteCloser {
	tap := newListener(func(r io.Reader) { parseMessages(r, report) })
	o := &tappedBody{ReadCloser: body, tap: tap, over: func() {}}
	return struct {
		io.ReadCloser
		io.Writer
	}{o, body}
}

// parseMessages reads frames until something is none, or r ends. An answer is what one message says;
// the next begins with the name of the model that the last one had. Payloads are parsed as they
// come. A control frame may come between the frames of a message, and says nothing of use.
func parseMessages(r io.Reader, report usageFunc) {
	var a answer
	for message := false; ; {
		h, _, err := readFrameHead(r)
		if err == nil {
			message, err = h.follow(message)
		}
		if err != nil || h.mask != [4]byte{} { // servers do not mask
			return
		}
		to := io.Writer(&a)
		if h.control() {
			to = io.Discard
		}
		if _, err := io.CopyN(to, r, int64(min(h.length, math.MaxInt64))); err != nil {
			return
		}
		if message || h.control() {
			continue
		}
		if model, t := a.result(); t.Unsaid == 0 {
			report(model, t)
		}
		a = answer{model: a.model}
	}
}
