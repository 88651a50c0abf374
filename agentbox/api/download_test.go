package api_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

func serveMux(t *testing.T, register func(*http.ServeMux)) *api.Client {
	mux := http.NewServeMux()
	register(mux)
	return serveHandler(t, mux)
}

func TestDownload(t *testing.T) {
	type request struct{ What string }
	s := api.Download[request]{"/stream"}
	var all bytes.Buffer
	for i := range 1 << 16 {
		all.WriteByte(byte(i))
	}
	c := serveMux(t, func(mux *http.ServeMux) {
		api.HandleDownload(mux, s, func(_ context.Context, req request, w io.Writer) error {
			switch req.What {
			case "refused":
				return agentbox.Errorf(agentbox.NotFound, "no such log").WithHint("list them")
			case "nothing":
				return nil
			case "dies":
				io.WriteString(w, "half")
				panic(http.ErrAbortHandler)
			}
			_, err := w.Write(all.Bytes())
			if req.What == "broken" {
				err = errors.Join(err, agentbox.Errorf(agentbox.Corrupt, "a line is\nbroken: é").WithHint("mend it"))
			}
			return err
		})
	})
	for what, want := range map[string]struct {
		code agentbox.Code
		text string
	}{
		"refused": {agentbox.NotFound, ""},
		"nothing": {"", ""},
		"all":     {"", all.String()},
		"broken":  {agentbox.Corrupt, all.String()},
		"dies":    {agentbox.Unavailable, "half"},
	} {
		var got strings.Builder
		err := api.Read(t.Context(), c, s, request{what}, &got)
		if (err == nil) != (want.code == "") || err != nil && agentbox.CodeOf(err) != want.code || got.String() != want.text {
			t.Errorf("%s: %d bytes, %v", what, got.Len(), err)
		}
	}
	if err := api.Read(t.Context(), c, s, request{"all"}, failingWriter{}); !errors.Is(err, errFull) {
		t.Errorf("a writer that fails: %v", err)
	}
	if err := api.Read(t.Context(), c, api.Download[request]{"/none"}, request{}, io.Discard); agentbox.CodeOf(err) != agentbox.Unavailable {
		t.Errorf("an unknown download: %v", err)
	}
}

var errFull = errors.New("full")

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errFull }

// What is written reaches the client before the download ends, and its end ends the server's side.
func TestDownloadIsFollowed(t *testing.T) {
	s, ended := api.Download[api.None]{"/stream"}, make(chan struct{})
	c := serveMux(t, func(mux *http.ServeMux) {
		api.HandleDownload(mux, s, func(ctx context.Context, _ api.None, w io.Writer) error {
			defer close(ended)
			io.WriteString(w, "line\n")
			<-ctx.Done()
			return ctx.Err()
		})
	})
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	go func() { w.CloseWithError(api.Read(ctx, c, s, api.None{}, w)) }()
	line := make([]byte, 5)
	if _, err := io.ReadFull(r, line); err != nil || string(line) != "line\n" {
		t.Fatalf("%q, %v", line, err)
	}
	stop()
	if _, err := r.Read(line); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-ended
}

func TestTunnel(t *testing.T) {
	tunnel, behind := api.Tunnel[api.BoxRef]{"/tunnel"}, make(chan net.Conn, 1)
	c := serveMux(t, func(mux *http.ServeMux) {
		api.HandleTunnel(mux, tunnel, func(_ context.Context, ref api.BoxRef) (net.Conn, error) {
			if ref.Box == "" {
				return nil, agentbox.Errorf(agentbox.Unavailable, "it does not answer")
			}
			near, far := socketPair(t)
			io.WriteString(far, "SSH-2.0-box\r\n") // before the client has seen the answer
			behind <- far
			return near, nil
		})
	})
	if _, err := api.DialTunnel(t.Context(), c, tunnel, api.BoxRef{}); agentbox.CodeOf(err) != agentbox.Unavailable || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("refused: %v", err)
	}
	if _, err := api.DialTunnel(t.Context(), c, api.Tunnel[api.BoxRef]{"/none"}, api.BoxRef{}); agentbox.CodeOf(err) != agentbox.Unavailable {
		t.Errorf("unknown: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := api.DialTunnel(ctx, c, tunnel, api.BoxRef{Box: "b"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cancel() // it bounded only the dialling
	far := <-behind
	io.WriteString(conn, "hello")
	conn.(interface{ CloseWrite() error }).CloseWrite()
	if got, err := io.ReadAll(far); string(got) != "hello" || err != nil {
		t.Errorf("to the box: %q, %v", got, err)
	}
	io.WriteString(far, "bye")
	far.Close()
	if got, err := io.ReadAll(conn); string(got) != "SSH-2.0-box\r\nbye" || err != nil {
		t.Errorf("from the box: %q, %v", got, err)
	}
}

// socketPair returns the ends of a connection that can be closed by halves.
func socketPair(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if near, err = net.Dial("unix", l.Addr().String()); err == nil {
		far, err = l.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	return near, far
}
