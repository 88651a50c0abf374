package gateway

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"agentbox/tools/suites/gatewaytest"
)

// recordedHello is what crypto/tls says first.
func recordedHello(name string, protos ...string) []byte {
	box, host := net.Pipe()
	defer host.Close()
	go func() {
		defer box.Close()
		_ = tls.Client(box, &tls.Config{ServerName: name, NextProtos: protos, InsecureSkipVerify: true}).Handshake()
	}()
	h, err := readHello(host)
	if err != nil {
		panic(err)
	}
	return h.raw
}

func TestReadHello(t *testing.T) {
	raw := recordedHello("a.test", "h2", "http/1.1")
	for what, r := range map[string]io.Reader{
		"at once":     bytes.NewReader(raw),
		"bytewise":    iotest.OneByteReader(bytes.NewReader(raw)),
		"with more":   io.MultiReader(bytes.NewReader(raw), strings.NewReader("what comes next")),
		"two records": bytes.NewReader(split(raw)),
	} {
		h, err := readHello(r)
		if err != nil || h.name != "a.test" {
			t.Errorf("%s: %+v %v", what, h, err)
		}
		if what != "two records" && !bytes.Equal(h.raw, raw) {
			t.Errorf("%s: %d bytes were read, the hello has %d", what, len(h.raw), len(raw))
		}
	}
	endless := append([]byte{22, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff}, make([]byte, 1<<20)...)
	for what, b := range map[string][]byte{"nothing": nil, "cut": raw[:len(raw)/2], "noise": bytes.Repeat([]byte{7}, 100), "SSLv2": {0x80, 0x2e, 1, 0, 2}, "endless": endless} {
		if h, err := readHello(bytes.NewReader(b)); err == nil || len(h.raw) > maxHello {
			t.Errorf("%s: %+v %v", what, h.name, err)
		}
	}
}

// split puts a handshake message of one record into two.
func split(raw []byte) []byte {
	body := raw[5:]
	var b []byte
	for _, part := range [][]byte{body[:10], body[10:]} {
		b = append(b, raw[0], raw[1], raw[2], byte(len(part)>>8), byte(len(part)))
		b = append(b, part...)
	}
	return b
}

// Whatever a client sends, what is read is what is played again, and a name that is found is what
// crypto/tls as a server would find.
func FuzzClientHello(f *testing.F) {
	f.Add(recordedHello("a.test", "h2"))
	f.Add(recordedHello(""))
	f.Add(split(recordedHello("allowed.example")))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{22, 3, 1, 0, 5, 1, 0, 0, 1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readHello(bytes.NewReader(b))
		if !bytes.HasPrefix(b, h.raw) || len(h.raw) > maxHello {
			t.Fatalf("%d bytes were read that are not the client's", len(h.raw))
		}
		if err != nil {
			return
		}
		again, err := readHello(bytes.NewReader(h.raw))
		if err != nil || again.name != h.name {
			t.Fatalf("%q is %q, %v when played again", h.name, again.name, err)
		}
	})
}

// bytesConn is a connection that says b, however it is read.
type bytesConn struct {
	helloConn
}

func readAll(t *testing.T, b []byte, small bool) ([]byte, error) {
	var wrong error
	r := io.Reader(bytes.NewReader(b))
	if small {
		r = iotest.OneByteReader(r)
	}
	f := newCheckedConn(&bytesConn{helloConn: helloConn{r}}, func(err error, _ bool) {
		if wrong != nil {
			t.Fatal("told twice")
		}
		wrong = err
	})
	out, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return out, wrong
}

// What comes through the check is a beginning of what was sent, does not depend on how it was cut,
// and is what net/http reads as the same sequence of requests and nothing else.
func FuzzHTTP(f *testing.F) {
	for _, request := range gatewaytest.Framings("a.test") {
		f.Add([]byte(request))
	}
	for _, chunks := range gatewaytest.Chunkings() {
		f.Add([]byte("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + "GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"))
	}
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"))
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\nabcGET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		out, wrong := readAll(t, b, false)
		if !bytes.HasPrefix(b, out) {
			t.Fatalf("%q came out of %q", out, b)
		}
		bytewise, wrongToo := readAll(t, b, true)
		if (wrong == nil) != (wrongToo == nil) || wrong == nil && !bytes.Equal(out, bytewise) {
			t.Fatalf("cut otherwise: %q %v and %q %v", out, wrong, bytewise, wrongToo)
		}
		r := bufio.NewReader(bytes.NewReader(out))
		for {
			req, err := http.ReadRequest(r)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				return // net/http may be stricter; it must not be looser
			}
			if len(req.Header["Content-Length"]) > 1 || req.Host == "" || req.Method == http.MethodConnect || len(req.TransferEncoding) > 0 && req.Header.Get("Content-Length") != "" {
				t.Fatalf("%q came through", out)
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return // the body does not end: what follows is no request
			}
			if len(req.Trailer) > 0 {
				t.Fatalf("trailers came through in %q", out)
			}
		}
	})
}

// Text that is hidden never comes through, however it is cut, and lengths stay as they are.
func FuzzRedact(f *testing.F) {
	f.Add([]byte("the value is "+secretValue+", twice "+secretValue), 7)
	f.Add([]byte(secretValue[:10]+secretValue), 1)
	f.Fuzz(func(t *testing.T, b []byte, step int) {
		if step < 1 || step > 1<<16 {
			return
		}
		r := &redactor{ReadCloser: io.NopCloser(&steps{b, step}), redactions: []redaction{{secretValue, strings.Repeat("*", len(secretValue))}}, onEnd: func() {}}
		out, err := io.ReadAll(r)
		if err != nil || len(out) != len(b) || bytes.Contains(out, []byte(secretValue)) {
			t.Fatalf("%q from %q: %v", out, b, err)
		}
		if want := bytes.ReplaceAll(b, []byte(secretValue), bytes.Repeat([]byte("*"), len(secretValue))); !bytes.Equal(out, want) {
			t.Fatalf("%q, want %q", out, want)
		}
	})
}

// steps reads a few bytes at a time.
type steps struct {
	b    []byte
	step int
}

func (s *steps) Read(p []byte) (int, error) {
	if len(s.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.step)], s.b)
	s.b = s.b[n:]
	return n, nil
}
