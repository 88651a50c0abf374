package toolgate

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/policy/secrets"
)

const (
	connectTime = 30 * time.Second // for a server to start and to list its tools
	idleTime    = 10 * time.Minute // after which a box's server ends
	maxSessions = 64
	maxTools    = 256
)

// session is a server at work for one box. mu guards the fields that follow it.
type session struct {
	server api.ToolServer

	mu    sync.Mutex
	conn  *mcp.ClientSession
	tools []*mcp.Tool
	idle  *time.Timer
}

// open returns the connection and the tools, and connects if it has to. A failure is not kept: the
// next request tries again.
func (s *session) open(ctx context.Context, g *Gate) (*mcp.ClientSession, []*mcp.Tool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.idle.Reset(idleTime)
		return s.conn, s.tools, nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	transport, err := g.transport(ctx, s.server)
	if err != nil {
		return nil, nil, err
	}
	conn, err := mcp.NewClient(&mcp.Implementation{Name: "agentbox", Version: g.Version}, nil).Connect(ctx, transport, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot connect to %s: %w", s.server.Name, err)
	}
	var tools []*mcp.Tool
	for tool, err := range conn.Tools(ctx, nil) {
		if err != nil {
			return nil, nil, fmt.Errorf("%s does not list its tools: %w", s.server.Name, joinClose(err, conn))
		}
		if t, ok := offered(s.server, tool); ok && len(tools) < maxTools {
			tools = append(tools, t)
		}
	}
	s.conn, s.tools, s.idle = conn, tools, time.AfterFunc(idleTime, s.close)
	g.wait.Go(func() { // a server that ended is started again for the next request
		_ = conn.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.conn == conn {
			s.conn = nil
			s.idle.Stop()
		}
	})
	return conn, tools, nil
}

func joinClose(err error, conn *mcp.ClientSession) error {
	_ = conn.Close()
	return err
}

func (s *session) close() {
	s.mu.Lock()
	conn := s.conn
	s.conn = nil
	if s.idle != nil {
		s.idle.Stop()
	}
	s.mu.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
}

var toolName = agentbox.Pattern(`^[A-Za-z0-9_.-]{1,64}$`)

// offered is a tool as boxes see it, under a name that says whose it is.
func offered(s api.ToolServer, t *mcp.Tool) (*mcp.Tool, bool) {
	if !toolName().MatchString(t.Name) || !offers(s, t.Name) {
		return nil, false
	}
	out := &mcp.Tool{Name: t.Name, Title: t.Title, Description: t.Description, Annotations: t.Annotations, InputSchema: t.InputSchema}
	b, err := json.Marshal(t.InputSchema)
	var schema struct{ Type string }
	if err != nil || json.Unmarshal(b, &schema) != nil || schema.Type != "object" {
		out.InputSchema = map[string]any{"type": "object"} // the SDK takes no other
	}
	return out, true
}

// transport starts the command, or makes requests to the URL. The command gets what programs need of
// the daemon's environment, and its own variables.
func (g *Gate) transport(ctx context.Context, s api.ToolServer) (mcp.Transport, error) {
	if s.URL != "" {
		return &mcp.StreamableClientTransport{Endpoint: s.URL, HTTPClient: g.client(s), OAuthHandler: kept{g.Registry, s}, DisableStandaloneSSE: true}, nil
	}
	cmd := exec.Command(s.Command[0], s.Command[1:]...)
	cmd.Dir = s.Directory
	for _, name := range []string{"PATH", "HOME", "USER", "LANG", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"} {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	for name, from := range s.Env {
		v, err := g.value(ctx, s, name, from)
		if err != nil {
			return nil, err
		}
		cmd.Env = append(cmd.Env, name+"="+v)
	}
	return &mcp.CommandTransport{Command: cmd}, nil
}

func (g *Gate) client(s api.ToolServer) *http.Client {
	return &http.Client{
		Transport: withHeaders{g, s},
		// Another address gets no credential, and what a server names as one is not the user's choice.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (g *Gate) value(ctx context.Context, s api.ToolServer, name string, from secrets.Reference) (string, error) {
	return from.Value(ctx, secrets.Purpose{Name: s.Name + "." + name, Env: g.variable})
}

// withHeaders sends a server's credentials with each request to it.
type withHeaders struct {
	gate   *Gate
	server api.ToolServer
}

func (w withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, from := range w.server.Headers {
		v, err := w.gate.value(r.Context(), w.server, name, from)
		if err != nil {
			return nil, err
		}
		r.Header.Set(name, v)
	}
	return http.DefaultTransport.RoundTrip(r)
}
