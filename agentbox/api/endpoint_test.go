package api_test

import (
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

var echo = api.Endpoint[string, string]{Path: "/v1/echo"}

func serve(t *testing.T, f api.Func[string, string]) *api.Client {
	t.Helper()
	mux := http.NewServeMux()
	api.Handle(mux, echo, f)
	return serveHandler(t, mux)
}

func serveHandler(t *testing.T, h http.Handler) *api.Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	client := api.NewClient(socket)
	t.Cleanup(func() {
		client.Close()
		server.Close()
		<-done
	})
	return client
}

func TestEveryErrorCodeCrossesTheWire(t *testing.T) {
	for _, code := range []agentbox.Code{
		agentbox.Invalid, agentbox.NotFound, agentbox.Conflict, agentbox.Exists, agentbox.NoSpace, agentbox.Missing,
		agentbox.Corrupt, agentbox.Unavailable, agentbox.Timeout, agentbox.Internal,
	} {
		t.Run(string(code), func(t *testing.T) {
			client := serve(t, func(context.Context, string, agentbox.Progress) (string, error) {
				return "", agentbox.Errorf(code, "what failed").WithHint("what to do")
			})
			_, err := api.Call(t.Context(), client, echo, "", nil)
			if e := agentbox.AsError(err); e == nil || e.Code != code || e.Message != "what failed" || e.Hint != "what to do" {
				t.Errorf("got %#v", e)
			}
		})
	}
}

func TestErrorAfterEvents(t *testing.T) {
	client := serve(t, func(_ context.Context, _ string, progress agentbox.Progress) (string, error) {
		progress.Note("on the way")
		return "", agentbox.Errorf(agentbox.NotFound, "nothing there")
	})
	var seen []string
	_, err := api.Call(t.Context(), client, echo, "", func(e agentbox.Event) { seen = append(seen, e.Detail) })
	if agentbox.CodeOf(err) != agentbox.NotFound || len(seen) != 1 || seen[0] != "on the way" {
		t.Errorf("got %v after %q", err, seen)
	}
}

func TestUnknownCall(t *testing.T) {
	client := serve(t, nil)
	_, err := api.Call(t.Context(), client, api.Endpoint[string, string]{Path: "/v1/newer"}, "", nil)
	if e := agentbox.AsError(err); e == nil || e.Code != agentbox.Unavailable || !strings.Contains(e.Hint, "another version") {
		t.Errorf("got %#v", err)
	}
}

func TestEventOrder(t *testing.T) {
	client := serve(t, func(_ context.Context, req string, progress agentbox.Progress) (string, error) {
		end := progress.Begin("step", "one")
		progress.Note("a <line> & more")
		end("two")
		return req + "!", nil
	})
	var seen []string
	got, err := api.Call(t.Context(), client, echo, "hello", func(e agentbox.Event) { seen = append(seen, e.Detail) })
	if want := "one, a <line> & more, two"; err != nil || got != "hello!" || strings.Join(seen, ", ") != want {
		t.Errorf("got %q, %v after %q", got, err, seen)
	}
}

func TestEmptyResult(t *testing.T) {
	list := api.Endpoint[api.None, []string]{Path: "/v1/list"}
	mux := http.NewServeMux()
	api.Handle(mux, list, func(context.Context, api.None, agentbox.Progress) ([]string, error) { return nil, nil })
	if got, err := api.Call(t.Context(), serveHandler(t, mux), list, api.None{}, nil); err != nil || len(got) != 0 {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestInvalidAnswer(t *testing.T) {
	ratio := api.Endpoint[string, float64]{Path: "/v1/ratio"}
	mux := http.NewServeMux()
	api.Handle(mux, ratio, func(context.Context, string, agentbox.Progress) (float64, error) { return math.NaN(), nil })
	if _, err := api.Call(t.Context(), serveHandler(t, mux), ratio, "", nil); agentbox.CodeOf(err) != agentbox.Internal || !strings.Contains(err.Error(), "NaN") {
		t.Errorf("%v", err)
	}
}

func TestInvalidRequest(t *testing.T) {
	client := serve(t, nil)
	for name, req := range map[string]any{"another type": 1, "too long": strings.Repeat("x", 5<<20)} {
		_, err := api.Call(t.Context(), client, api.Endpoint[any, string](echo), req, nil)
		if agentbox.CodeOf(err) != agentbox.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestClientDisconnectCancelsHandler(t *testing.T) {
	told := make(chan struct{})
	client := serve(t, func(ctx context.Context, _ string, progress agentbox.Progress) (string, error) {
		progress.Note("waiting")
		<-ctx.Done()
		close(told)
		return "", ctx.Err()
	})
	ctx, hangUp := context.WithCancel(t.Context())
	_, err := api.Call(ctx, client, echo, "", func(agentbox.Event) { hangUp() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the client got %v", err)
	}
	select {
	case <-told:
	case <-time.After(5 * time.Minute):
		t.Error("the handler goes on")
	}
}

func TestNoAnswerIsUnavailable(t *testing.T) {
	answers := map[string]string{
		"before the first frame": "",
		"between two frames":     `{"event":{"step":"image"}}` + "\n",
		"within a frame":         `{"event":{"step":"image"}}` + "\n" + `{"result":"hal`,
		"in words of its own":    "panic: out of luck\n",
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			client := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "1000") // the connection breaks before that
				_, _ = w.Write([]byte(answer))
			}))
			_, err := api.Call(t.Context(), client, echo, "", nil)
			if agentbox.CodeOf(err) != agentbox.Unavailable || !strings.Contains(err.Error(), echo.Path) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		_, err := api.Call(t.Context(), api.NewClient(filepath.Join(t.TempDir(), "s")), echo, "", nil)
		if agentbox.CodeOf(err) != agentbox.Unavailable {
			t.Errorf("got %v", err)
		}
	})
}

func TestIsUnreachable(t *testing.T) {
	client := serve(t, func(context.Context, string, agentbox.Progress) (string, error) { panic(http.ErrAbortHandler) })
	if _, err := api.Call(t.Context(), client, echo, "", nil); !api.IsUnreachable(err) || agentbox.CodeOf(err) != agentbox.Unavailable {
		t.Errorf("got %v", err)
	}
	nobody := api.NewClient(filepath.Join(t.TempDir(), "s"))
	if _, err := api.Call(t.Context(), nobody, echo, "", nil); !api.IsUnreachable(err) || strings.Contains(err.Error(), "http:") {
		t.Errorf("got %v", err)
	}
	refusing := serve(t, func(context.Context, string, agentbox.Progress) (string, error) {
		return "", agentbox.Errorf(agentbox.Unavailable, "the machine is gone")
	})
	if _, err := api.Call(t.Context(), refusing, echo, "", nil); api.IsUnreachable(err) {
		t.Errorf("got %v", err)
	}
}

func TestServerShutdownDuringCall(t *testing.T) {
	mux := http.NewServeMux()
	ctx, end := context.WithCancel(t.Context())
	api.Handle(mux, echo, func(ctx context.Context, _ string, _ agentbox.Progress) (string, error) {
		end() // the server's context, from which those of requests derive
		<-ctx.Done()
		return "", ctx.Err()
	})
	client := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { mux.ServeHTTP(w, r.WithContext(ctx)) }))
	_, err := api.Call(t.Context(), client, echo, "", nil)
	if e := agentbox.AsError(err); e == nil || e.Code != agentbox.Unavailable || strings.Contains(e.Message, "context") || e.Hint == "" {
		t.Errorf("got %#v", e)
	}
}

// JSON has no other text than UTF-8, and Go's encoder and decoder put U+FFFD in its place.
func TestTextThatIsNotUTF8IsRefused(t *testing.T) {
	type spec struct {
		Argv []string
		Env  map[string]string
		Data []byte
	}
	type request struct{ Spec *spec }
	e := api.Endpoint[request, string]{Path: "/v1/spec"}
	mux := http.NewServeMux()
	api.Handle(mux, e, func(_ context.Context, r request, _ agentbox.Progress) (string, error) { return "served", nil })
	client := serveHandler(t, mux)
	for name, s := range map[string]*spec{
		"an argument": {Argv: []string{"ls", "caf\xe9"}}, "a value": {Env: map[string]string{"A": "\xff"}}, "a name": {Env: map[string]string{"\xff": "A"}},
	} {
		_, err := api.Call(t.Context(), client, e, request{s}, nil)
		if said := agentbox.AsError(err); agentbox.CodeOf(err) != agentbox.Invalid || said.Hint == "" || !strings.Contains(said.Message, `\x`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := api.Call(t.Context(), client, e, request{&spec{Argv: []string{"café", "\ufffd"}, Data: []byte{0xff}}}, nil); err != nil || got != "served" {
		t.Errorf("text and bytes: %q, %v", got, err)
	}
	// A client of another kind.
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, e.Path, strings.NewReader("{\"Spec\":{\"Argv\":[\"caf\xe9\"]}}")))
	if w.Code != http.StatusBadRequest {
		t.Errorf("answered %d: %s", w.Code, w.Body)
	}
}
