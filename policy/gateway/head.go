package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// body is how the body of a request is framed.
type body struct {
	length  int64 // with chunked false
	chunked bool
	upgrade bool // to WebSocket
}

// parseHead checks the head of an HTTP/1 request, up to and with its empty line, and says how its
// body is framed. It takes what every server reads in the same way, and nothing else: RFC 9112
// without what it lets a recipient be generous about. What was read differently on two sides of a
// proxy has been the way around it ever since.
func parseHead(head []byte) (body, error) {
	lines := bytes.Split(head, []byte("\r\n"))
	if len(lines) < 3 {
		return body{}, errors.New("the head is not complete")
	}
	lines = lines[:len(lines)-2] // the empty line, and what is behind its end
	for _, l := range lines {
		if bytes.ContainsAny(l, "\r\n\x00") {
			return body{}, errors.New("a line ends in another way than CR LF, or holds a NUL")
		}
	}
	method, version, err := parseRequestLine(string(lines[0]))
	if err != nil {
		return body{}, err
	}
	h, err := parseFields(lines[1:])
	if err != nil {
		return body{}, err
	}
	return h.body(method, version)
}

// maxTarget is in bytes. maxFields is twice what Apache takes by default, so no server of note
// refuses less.
const (
	maxTarget = 16 << 10
	maxFields = 200
)

// parseRequestLine takes METHOD TARGET VERSION with one space between, the target in origin form,
// or * for OPTIONS.
func parseRequestLine(line string) (method, version string, err error) {
	parts := strings.Split(line, " ")
	if len(parts) != 3 {
		return "", "", errors.New("the request line is not METHOD TARGET VERSION")
	}
	method, target, version := parts[0], parts[1], parts[2]
	switch {
	case method == "CONNECT":
		return "", "", errors.New("CONNECT: there is no proxy here")
	case method == "PRI":
		return "", "", errors.New("HTTP/2 without TLS")
	case !isMethod([]byte(method)):
		return "", "", errors.New("the method is not one in capitals")
	case version != "HTTP/1.1" && version != "HTTP/1.0":
		return "", "", errors.New("the version is not HTTP/1.1")
	case len(target) > maxTarget:
		return "", "", fmt.Errorf("the target has more than %d bytes", maxTarget)
	case target == "*" && method == "OPTIONS":
		return method, version, nil
	case !strings.HasPrefix(target, "/"):
		return "", "", errors.New("the target is not a path: there is no proxy here")
	}
	for i := range len(target) {
		if c := target[i]; c <= ' ' || c >= 0x7f || c == '#' {
			return "", "", errors.New("the target holds bytes that have to be encoded")
		}
	}
	return method, version, nil
}

// fields are those that frame a request, each as often as it came.
type fields map[string][]string

// parseFields reads the fields by their names in lower case. All of them are kept, as few are
// looked at.
func parseFields(lines [][]byte) (fields, error) {
	if len(lines) > maxFields {
		return nil, fmt.Errorf("more than %d header fields", maxFields)
	}
	h := fields{}
	for _, l := range lines {
		name, value, ok := strings.Cut(string(l), ":")
		if !ok || !isToken(name) {
			return nil, errors.New("a header field is not NAME: VALUE")
		}
		value = strings.Trim(value, " \t")
		for i := range len(value) {
			if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
				return nil, errors.New("a header field holds a control character")
			}
		}
		name = strings.ToLower(name)
		h[name] = append(h[name], value)
	}
	return h, nil
}

// body reads the fields that frame the request, and refuses those that may come once and came
// twice.
func (h fields) body(method, version string) (body, error) {
	for _, name := range []string{"host", "content-length", "transfer-encoding", "upgrade", "expect", "authorization"} {
		if len(h[name]) > 1 {
			return body{}, fmt.Errorf("more than one %s field", name)
		}
	}
	if len(h["host"]) == 0 || h["host"][0] == "" {
		return body{}, errors.New("no Host field")
	}
	if !httpguts.ValidHostHeader(h["host"][0]) {
		return body{}, errors.New("a Host field that is not a host")
	}
	if len(h["trailer"]) > 0 {
		return body{}, errors.New("a Trailer field: trailers are not carried")
	}
	if len(h["http2-settings"]) > 0 {
		return body{}, errors.New("an upgrade to HTTP/2 without TLS")
	}
	if expect := h["expect"]; len(expect) > 0 && !strings.EqualFold(expect[0], "100-continue") {
		return body{}, errors.New("an Expect field that is not 100-continue")
	}
	b := body{}
	if upgrade := h["upgrade"]; len(upgrade) > 0 {
		if !strings.EqualFold(upgrade[0], "websocket") || method != "GET" || version != "HTTP/1.1" {
			return b, errors.New("an upgrade to something other than WebSocket")
		}
		b.upgrade = true
	}
	return b, h.length(&b, version)
}

// length says how long the body is. Both ways of saying so at once, or any that a server could
// skip, is where requests are smuggled.
func (h fields) length(b *body, version string) error {
	coding, length := h["transfer-encoding"], h["content-length"]
	switch {
	case len(coding) > 0 && len(length) > 0:
		return errors.New("both Content-Length and Transfer-Encoding")
	case len(coding) > 0 && (version != "HTTP/1.1" || !strings.EqualFold(coding[0], "chunked")):
		return errors.New("a Transfer-Encoding that is not chunked")
	case len(coding) > 0:
		b.chunked = true
	case len(length) > 0:
		n, err := strconv.ParseUint(length[0], 10, 62)
		if err != nil || strings.Trim(length[0], "0123456789") != "" || len(length[0]) > 18 {
			return errors.New("a Content-Length that is not a number")
		}
		b.length = int64(n)
	}
	if b.upgrade && (b.chunked || b.length > 0) {
		return errors.New("an upgrade with a body")
	}
	return nil
}

// isToken tells whether s is a field's name as RFC 9110 has it, of at most 256 bytes.
func isToken(s string) bool {
	if s == "" || len(s) > 256 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return true
}
