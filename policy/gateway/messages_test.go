package gateway

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"agentbox/agentbox"
)

// spoken is what OpenAI's responses say in a WebSocket: two answers, one of them in several frames
// with a ping between them, behind as many bytes of text.
func spoken(long int) []byte {
	const text, more, ping = 1, 0, 9
	completed := `{"type":"response.completed","response":{"model":"gpt-x","output":[{"text":"\"usage\":{"}],"usage":{"input_tokens":37,"input_tokens_details":{"cached_tokens":7},"output_tokens":11}}}`
	return bytes.Join([][]byte{
		frame(true, text, nil, `{"type":"response.created","response":{"model":"gpt-x","usage":null}}`),
		frame(true, text, nil, `{"type":"response.output_text.delta","delta":"`+strings.Repeat("x", long)+`"}`),
		frame(true, text, nil, completed),
		frame(false, text, nil, completed[:60]), frame(true, ping, nil, "{"), frame(false, more, nil, completed[60:61]), frame(true, more, nil, completed[61:]),
		frame(true, 8, nil, ""),
	}, nil)
}

// talk is a WebSocket whose server says what r has.
type talk struct {
	io.Reader
	io.Writer
	io.Closer
}

func hear(t testing.TB, r io.Reader) (out []byte, said []string) {
	t.Helper()
	ws := readMessages(talk{r, io.Discard, io.NopCloser(nil)}, func(model string, u agentbox.Tokens) {
		said = append(said, fmt.Sprintf("%s %d %d %d", model, u.Input, u.CacheRead, u.Output))
	})
	out, err := io.ReadAll(ws)
	if err != nil || ws.Close() != nil {
		t.Fatal(err)
	}
	return out, said
}

func TestUsageOfMessages(t *testing.T) {
	all := spoken(70_000)
	for name, r := range map[string]io.Reader{"whole": bytes.NewReader(all), "bytewise": iotest.OneByteReader(bytes.NewReader(all))} {
		if out, said := hear(t, r); !bytes.Equal(out, all) || strings.Join(said, "|") != "gpt-x 30 7 11|gpt-x 30 7 11" {
			t.Errorf("%s: %d bytes of %d, %v", name, len(out), len(all), said)
		}
	}
	realtime := append(frame(true, 1, nil, `{"type":"session.created","session":{"model":"rt-x"}}`),
		frame(true, 1, nil, `{"type":"response.done","response":{"usage":{"input_tokens":5,"output_tokens":2,"input_token_details":{"cached_tokens":1}}}}`)...)
	if _, said := hear(t, bytes.NewReader(realtime)); strings.Join(said, "|") != "rt-x 4 1 2" {
		t.Errorf("realtime: %v", said)
	}
	usage := `{"usage":{"input_tokens":5}}`
	for what, b := range map[string][]byte{
		"compressed": append([]byte{0xc1, 1, 0}, frame(true, 1, nil, usage)...), "masked": frame(true, 1, []byte{1, 2, 3, 4}, usage),
		"no frame": []byte("HTTP/1.1 200 OK"), "longer than anything": {0x81, 127, 255, 255, 255, 255, 255, 255, 255, 255, '{'},
	} {
		if out, said := hear(t, bytes.NewReader(b)); !bytes.Equal(out, b) || said != nil {
			t.Errorf("%s: %v", what, said)
		}
	}
}

// Through the gateway: the server is asked not to compress, what it says arrives as it is, and each
// answer is told once.
func TestGatewayReportsMessageUsage(t *testing.T) {
	w := newWorld(t, grants("http://a.test:80"))
	var told []string
	w.g.cfg.Usage = func(model string, u agentbox.Tokens) { told = append(told, fmt.Sprintf("%s %d", model, u.Total())) }
	var seen http.Header
	w.serveHTTP(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		seen = r.Header
		conn, _, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = conn.Write(append([]byte(switching+"\r\n"), spoken(70_000)...))
	}))
	answer := w.raw(dest("a.test", 80), "GET /v1/responses HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nAccept-Encoding: compress, gzip\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n")
	in := bufio.NewReader(strings.NewReader(answer))
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%.200q %v", answer, err)
	}
	behind, _ := io.ReadAll(in)
	w.g.Close()
	if !bytes.Equal(behind, spoken(70_000)) || strings.Join(told, "|") != "gpt-x 48|gpt-x 48" {
		t.Errorf("%d bytes, told %v", len(behind), told)
	}
	if seen.Get("Accept-Encoding") != "gzip" || seen.Get(extensions) != "" {
		t.Errorf("asked for %v", seen)
	}
}

// Whatever a server says in a WebSocket, it says the same however it is cut.
func FuzzMessages(f *testing.F) {
	f.Add(spoken(200), 5)
	f.Add([]byte{0x81, 127, 255, 255, 255, 255, 255, 255, 255, 255, '{'}, 1)
	f.Fuzz(func(t *testing.T, b []byte, step int) {
		if step < 1 || step > 1<<16 {
			return
		}
		var cut, whole []string
		parseMessages(&steps{b, step}, func(model string, u agentbox.Tokens) { cut = append(cut, fmt.Sprint(model, u)) })
		parseMessages(bytes.NewReader(b), func(model string, u agentbox.Tokens) { whole = append(whole, fmt.Sprint(model, u)) })
		if !slices.Equal(cut, whole) || len(whole) > len(b) {
			t.Fatalf("cut %v, whole %v", cut, whole)
		}
	})
}
