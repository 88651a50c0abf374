package mcp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentbox/agentbox/api"
	"agentbox/agentbox/client"
	"agentbox/agentbox/mcp"
)

// restarting serves the tools over HTTP, by a new process's handler after each restart.
type restarting struct {
	client *client.Client
	now    atomic.Value
}

func (s *restarting) restart() {
	grantOf := func(r *http.Request) (api.Token, error) {
		return api.Token{ID: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")}, nil
	}
	s.now.Store(mcp.Handler(grantOf, func(api.Token) mcp.Server { return mcp.Server{Client: s.client} }))
}

func (s *restarting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.now.Load().(http.Handler).ServeHTTP(w, r)
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// A client's session goes on after a restart, with cancellation, which is a request of its own.
func TestSessionAfterRestart(t *testing.T) {
	ended, began := make(chan struct{}, 1), make(chan string, 1)
	server := &restarting{client: daemon(t, ended)}
	server.restart()
	s := httptest.NewServer(server)
	t.Cleanup(s.Close)
	over := &sdk.StreamableClientTransport{Endpoint: s.URL, HTTPClient: &http.Client{Transport: bearer("one")}}
	opts := &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
		began <- r.Params.Message
	}}
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, opts).Connect(t.Context(), over, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	id := session.ID()
	for range 3 {
		if text, failed := call(t, session, "box_exec", map[string]any{"box": "app", "command": "make"}); failed || !strings.Contains(text, "make") {
			t.Fatalf("%v %q", failed, text)
		}
		server.restart()
	}
	if session.ID() != id {
		t.Errorf("the session is another one: %s, not %s", session.ID(), id)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-began; cancel() }()
	p := &sdk.CallToolParams{Name: "box_exec", Arguments: map[string]any{"box": "app", "command": "wait"}}
	p.SetProgressToken("p")
	if _, err := session.CallTool(ctx, p); err == nil {
		t.Error("a call that was given up answered")
	}
	<-ended
}
