package gateway

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"testing/iotest"
)

// What a server says before its answer is redacted as its answer is.
func TestAttackEchoInInformationalAnswers(t *testing.T) {
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		w := newWorld(t, withToken(grants("a.test"), "https://a.test"))
		w.serveTLS(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Link", "<"+r.Header.Get("Authorization")+">")
			rw.WriteHeader(http.StatusEarlyHints)
			rw.Header().Set("X-"+r.Header.Get("X-Plain"), "the value as a name")
			rw.Header().Del("Link")
		}))
		w.set("TOKEN", "Plain-Value-1234")
		c := w.client()
		c.Transport.(*http.Transport).ForceAttemptHTTP2 = proto == "HTTP/2.0"
		var hints []string
		trace := &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
			hints = append(hints, h.Get("Link"))
			return nil
		}}
		req, _ := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet, "https://a.test/", nil)
		req.Header.Set("Authorization", "Bearer "+placeholder)
		req.Header.Set("X-Plain", placeholder)
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		all := strings.ToLower(fmt.Sprint(hints, res.Header))
		if len(hints) != 1 || strings.Contains(all, "plain-value-1234") {
			t.Errorf("%s: %s", proto, all)
		}
	}
}

// frame is a WebSocket frame of a server, or of anybody who masks.
func frame(fin bool, opcode byte, mask []byte, payload string) []byte {
	b := []byte{opcode, byte(len(payload))}
	if fin {
		b[0] |= 0x80
	}
	switch {
	case len(payload) > 0xffff:
		b[1] = 127
		b = binary.BigEndian.AppendUint64(b, uint64(len(payload)))
	case len(payload) > 125:
		b[1] = 126
		b = binary.BigEndian.AppendUint16(b, uint16(len(payload)))
	}
	body := []byte(payload)
	if mask != nil {
		b[1] |= 0x80
		b = append(b, mask...)
		for i := range body {
			body[i] ^= mask[i%4]
		}
	}
	return append(b, body...)
}

// upgraded opens a WebSocket in a box, with the secret, to a server that then says these bytes. It
// gives the head of the answer and what came behind it, and what the server saw.
func (w *world) upgraded(extra, answer string, says func(value string) []byte) (head, behind string, seen http.Header) {
	w.t.Helper()
	w.serveTLS(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		seen = r.Header
		conn, _, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		value := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		_, _ = io.WriteString(conn, strings.ReplaceAll(answer, "VALUE", value))
		for b := says(value); len(b) > 0; {
			n := min(len(b), 7) // in pieces, as they may come
			_, _ = conn.Write(b[:n])
			b = b[n:]
		}
	}))
	c, err := w.dial(dest("a.test", 443))
	if err != nil {
		w.t.Fatal(err)
	}
	pool := roots().Clone()
	pool.AppendCertsFromPEM(w.ca.PEM())
	conn := tls.Client(c, &tls.Config{RootCAs: pool, ServerName: "a.test", NextProtos: []string{"http/1.1"}})
	_, _ = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nAuthorization: Bearer %s\r\n%s\r\n", placeholder, extra)
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		return "", err.Error(), seen
	}
	rest := io.Reader(in)
	if res.StatusCode != http.StatusSwitchingProtocols {
		rest = res.Body
	}
	b, _ := io.ReadAll(rest)
	return fmt.Sprint(res.Status, res.Header), string(b), seen
}

const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"

// What a server says in changing protocols, and behind it, is redacted: in frames of every length,
// masked or not, and over the seams of a message in several frames.
func TestAttackEchoInUpgradedStreams(t *testing.T) {
	mask := []byte{1, 0x80, 0xff, 7}
	const text, more, ping = 1, 0, 9
	half := len(secretValue) / 2
	for what, says := range map[string]func(value string) []byte{
		"one frame": func(v string) []byte { return frame(true, text, nil, "a "+v+" b") },
		"masked":    func(v string) []byte { return frame(true, text, mask, "a "+v+" b") },
		"longer":    func(v string) []byte { return frame(true, text, nil, strings.Repeat("x", 200)+v) },
		"longest":   func(v string) []byte { return frame(true, text, mask, strings.Repeat("x", 70_001)+v+"yy") },
		"in fragments": func(v string) []byte {
			return append(frame(false, text, nil, "a "+v[:half]), frame(true, more, mask, v[half:]+" b")...)
		},
		"byte by byte": func(v string) []byte {
			b := frame(false, text, nil, "")
			for i := range len(v) {
				b = append(b, frame(false, more, nil, v[i:i+1])...)
			}
			return append(b, frame(true, more, nil, "")...)
		},
		"in a ping": func(v string) []byte { return frame(true, ping, nil, v) },
		"with a ping in between": func(v string) []byte {
			return bytes.Join([][]byte{frame(false, text, nil, v+"s"), frame(true, ping, nil, "p"), frame(true, more, nil, "x"+v)}, nil)
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, withToken(grants("a.test"), "https://a.test"))
			head, behind, _ := w.upgraded("", switching+"X-Echo: VALUE\r\n\r\n", says)
			if !strings.HasPrefix(head, "101 Switching Protocols") || strings.Contains(head, secretValue) {
				t.Fatalf("the head: %q", head)
			}
			want := says(placeholder[:len(secretValue)])
			if got := []byte(behind); !bytes.Equal(unmasked(t, got), unmasked(t, want)) {
				t.Errorf("got %.200q\nwant %.200q", got, want)
			}
		})
	}
}

// unmasked gives each frame's first byte and payload. How a mask was chosen says nothing.
func unmasked(t *testing.T, b []byte) []byte {
	t.Helper()
	var out []byte
	for len(b) > 0 {
		n, at := int(b[1]&0x7f), 2
		switch n {
		case 126:
			n, at = int(binary.BigEndian.Uint16(b[2:])), 4
		case 127:
			n, at = int(binary.BigEndian.Uint64(b[2:])), 10
		}
		var mask [4]byte
		if b[1]&0x80 != 0 {
			copy(mask[:], b[at:])
			at += 4
		}
		out = append(out, b[0])
		for i := range n {
			out = append(out, b[at+i]^mask[i%4])
		}
		b = b[at+n:]
	}
	return out
}

// Compressed frames cannot be read, so the extension is neither asked for nor taken, and what is no
// frame ends the stream.
func TestAttackUnreadableUpgrades(t *testing.T) {
	const deflate = "Sec-WebSocket-Extensions: permessage-deflate\r\n"
	w := newWorld(t, withToken(grants("a.test"), "https://a.test"))
	head, behind, seen := w.upgraded(deflate, switching+deflate+"\r\n", func(v string) []byte { return []byte(v) })
	if seen.Get("Sec-Websocket-Extensions") != "" || !strings.HasPrefix(head, "502") || strings.Contains(behind, secretValue) {
		t.Errorf("%v %q %q", seen, head, behind)
	}
	w = newWorld(t, withToken(grants("a.test"), "https://a.test"))
	if head, behind, _ := w.upgraded("", "HTTP/1.1 101 VALUE\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", func(v string) []byte { return []byte("\xf1\x00" + v) }); strings.Contains(head+behind, secretValue) {
		t.Errorf("%q %q", head, behind)
	}
}

// Whatever a server says and in whatever pieces it comes, the box is told the same, and not a byte
// more than was said.
func FuzzFrames(f *testing.F) {
	f.Add(frame(true, 1, []byte{1, 2, 3, 4}, "x"+secretValue))
	f.Add(append(frame(false, 2, nil, secretValue[:9]), frame(true, 0, nil, secretValue[9:])...))
	f.Add([]byte{0x82, 127, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, said []byte) {
		hide := []redaction{{secretValue, strings.Repeat("*", len(secretValue))}}
		got, err := io.ReadAll(newFrameRedactor(io.NopCloser(iotest.OneByteReader(bytes.NewReader(said))), hide))
		if len(got) > len(said) || err == nil && len(got) != len(said) {
			t.Fatalf("%d bytes of %d: %v", len(got), len(said), err)
		}
		whole, wholeErr := io.ReadAll(newFrameRedactor(io.NopCloser(bytes.NewReader(said)), hide))
		if !bytes.Equal(whole, got) || (err == nil) != (wholeErr == nil) {
			t.Fatalf("in pieces %q %v\nas a whole %q %v", got, err, whole, wholeErr)
		}
	})
}
