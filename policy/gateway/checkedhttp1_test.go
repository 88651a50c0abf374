package gateway

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// The server calls its reader back when it has answered a request. What has come of the next one's
// head until then is no client that is late.
func TestInterruptedReadHasNoTimeout(t *testing.T) {
	box, host := net.Pipe()
	defer box.Close()
	f := newCheckedConn(host, func(err error, _ bool) { t.Errorf("refused: %v", err) })
	read := make(chan error)
	b := make([]byte, 100)
	n := 0
	next := func() {
		var err error
		n, err = f.Read(b)
		read <- err
	}
	for _, part := range []string{"GET / HT", "TP/1.1\r\nHo"} {
		go next()
		if _, err := io.WriteString(box, part); err != nil { // it returns when the part was read
			t.Fatal(err)
		}
		if err := f.SetReadDeadline(time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		if err := <-read; n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("%q: %q, %v", part, b[:n], err)
		}
		if err := f.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	go next()
	if _, err := io.WriteString(box, "st: a.test\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err != nil || string(b[:n]) != "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n" {
		t.Errorf("%q, %v", b[:n], err)
	}
}

// apt sends its next requests before it has the answer to the first, and the network cuts them
// anywhere.
func TestRequestArrivingDuringAnother(t *testing.T) {
	w := newWorld(t, grants("a.test"))
	w.serveHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) }))
	c, err := w.dial(dest("a.test", 80))
	if err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(c)
	const head = "GET /2 HTTP/1.1\r\nHost: a.test\r\n\r\n"
	sent, want := "GET /1 HTTP/1.1\r\nHost: a.test\r\n\r\n", "/1"
	for cut := 1; cut < len(head); cut++ {
		if _, err := io.WriteString(c, sent+head[:cut]); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		if err != nil || string(text) != want {
			t.Fatalf("before a head that was cut after %d bytes: %s %q, %v", cut-1, res.Status, strings.TrimSpace(string(text)), err)
		}
		sent, want = head[cut:], "/2"
	}
}
