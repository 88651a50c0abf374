package gateway

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
)

// redact hides secrets in a response: in headers, in the body as it is read, in trailers.
func (s *substitution) redact(res *http.Response, body io.ReadCloser) io.ReadCloser {
	if !s.redacts() {
		return body
	}
	s.redactHeader(res.Header)
	s.redactHeader(res.Trailer) // so far only names
	r := &redactor{ReadCloser: body, redactions: s.redactions}
	r.onEnd = func() { s.redactHeader(res.Trailer) }
	return r
}

// extensions is the field in which both sides of a WebSocket agree on compression.
const extensions = "Sec-Websocket-Extensions"

// redactUpgrade hides secrets in the response that changes to WebSocket, and in the frames after
// it.
//
// It fails, which ends the connection, if the server compresses frames although it was not asked
// to.
func (s *substitution) redactUpgrade(res *http.Response, body io.ReadWriteCloser) (io.ReadWriteCloser, error) {
	res.Status = "101 " + http.StatusText(http.StatusSwitchingProtocols) // not the server's words
	if !s.redacts() {
		return body, nil
	}
	if len(res.Header[extensions]) > 0 {
		return nil, errors.New("the server uses a WebSocket extension that was not requested, so secrets in its frames could not be found")
	}
	s.redactHeader(res.Header)
	return struct {
		*frameRedactor
		io.Writer
	}{newFrameRedactor(body, s.redactions), body}, nil
}

func (s *substitution) redacts() bool { return s != nil && len(s.redactions) > 0 }

// redactHeader redacts values and drops fields whose name contains a secret, in any case.
func (s *substitution) redactHeader(h http.Header) {
	for name, values := range h {
		if slices.ContainsFunc(s.redactions, func(v redaction) bool { return strings.Contains(strings.ToLower(name), strings.ToLower(v.text)) }) {
			delete(h, name)
			continue
		}
		for i := range values {
			for _, v := range s.redactions {
				values[i] = strings.ReplaceAll(values[i], v.text, v.mask)
			}
		}
	}
}
