package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
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

// parseHead checks the head of an HTTP/1 request, including its empty line, and says how its body
// is framed. It accepts only what every server reads in the same way: RFC 9112 without the leniency
// it permits. Requests that two sides of a proxy read differently are the usual way around it.
func parseHead(head []byte) (body, error) {
	lines := bytes.Split(head, []byte("\r\n"))
	if len(lines) < 3 {
		return body{}, errors.New("the head is not complete")
	}
	lines = lines[:len(lines)-2] // the empty line, and what is behind its end
	for _, l := range lines {
		if bytes.ContainsAny(l, "\r\n\x00") {
			return body{}, errors.New("a line does not end with CR LF, or has a NUL")
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
	return framedBody(h, method, version)
}

// maxTarget is in bytes. maxFields is twice what Apache takes by default, so no common server
// refuses less.
const (
	maxTarget = 16 << 10
	maxFields = 200
)

// parseRequestLine parses METHOD TARGET VERSION, separated by single spaces. The target is in
// origin form, or * for OPTIONS.
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
	case strings.ContainsFunc(target, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '#' }):
		return "", "", errors.New("the target has bytes that have to be encoded")
	}
	return method, version, nil
}

// maxFieldName is in bytes.
const maxFieldName = 256

// parseFields parses the fields, repeated ones included.
func parseFields(lines [][]byte) (http.Header, error) {
	if len(lines) > maxFields {
		return nil, fmt.Errorf("more than %d header fields", maxFields)
	}
	h := http.Header{}
	for _, l := range lines {
		name, value, ok := strings.Cut(string(l), ":")
		switch {
		case !ok || len(name) > maxFieldName || !httpguts.ValidHeaderFieldName(name):
			return nil, errors.New("a header field is not NAME: VALUE")
		case !httpguts.ValidHeaderFieldValue(value):
			return nil, errors.New("a header field has a control character")
		}
		h.Add(name, strings.Trim(value, " \t"))
	}
	return h, nil
}

// framedBody reads the fields that frame the request, and refuses repeated ones.
func framedBody(h http.Header, method, version string) (body, error) {
	for _, name := range []string{"Host", "Content-Length", "Transfer-Encoding", "Upgrade", "Expect", "Authorization"} {
		if len(h[name]) > 1 {
			return body{}, fmt.Errorf("more than one %s field", strings.ToLower(name))
		}
	}
	b := body{}
	switch expect := h["Expect"]; {
	case h.Get("Host") == "":
		return b, errors.New("no Host field")
	case !httpguts.ValidHostHeader(h.Get("Host")):
		return b, errors.New("a Host field that is not a host")
	case h["Trailer"] != nil:
		return b, errors.New("a Trailer field: trailers are not carried")
	case h["Http2-Settings"] != nil:
		return b, errors.New("an upgrade to HTTP/2 without TLS")
	case expect != nil && !strings.EqualFold(expect[0], "100-continue"):
		return b, errors.New("an Expect field that is not 100-continue")
	}
	if upgrade := h["Upgrade"]; upgrade != nil {
		if !strings.EqualFold(upgrade[0], "websocket") || method != "GET" || version != "HTTP/1.1" {
			return b, errors.New("an upgrade to something other than WebSocket")
		}
		b.upgrade = true
	}
	return b, b.frame(h, version)
}

// frame determines the length of the body. It refuses requests that give it in two ways, or in one
// that a server could ignore, because that is how requests are smuggled.
func (b *body) frame(h http.Header, version string) error {
	coding, length := h["Transfer-Encoding"], h["Content-Length"]
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
