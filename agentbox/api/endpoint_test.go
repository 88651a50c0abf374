package api_test

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

var echo = api.Endpoint[string, string]{Path: "/v1/echo"}

func serve(t *testing.T, f api.Func[string, string]) *api.Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	api.Handle(mux, echo, f)
	server := &http.Server{Handler: mux}
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

func TestAnErrorAfterEventsIsStillAnError(t *testing.T) {
	client := serve(t, func(_ context.Context, _ string, progress agentbox.Progress) (string, error) {
		progress.Say("on the way")
		return "", agentbox.Errorf(agentbox.NotFound, "nothing there")
	})
	var seen []string
	_, err := api.Call(t.Context(), client, echo, "", func(e agentbox.Event) { seen = append(seen, e.Detail) })
	if agentbox.CodeOf(err) != agentbox.NotFound || len(seen) != 1 || seen[0] != "on the way" {
		t.Errorf("got %v after %q", err, seen)
	}
}

func TestAServerThatKnowsNoSuchCallIsOfAnotherVersion(t *testing.T) {
	client := serve(t, nil)
	_, err := api.Call(t.Context(), client, api.Endpoint[string, string]{Path: "/v1/newer"}, "", nil)
	if e := agentbox.AsError(err); e == nil || e.Code != agentbox.Unavailable || !strings.Contains(e.Hint, "another version") {
		t.Errorf("got %#v", err)
	}
}
