package toolgate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// Gate serves boxes. ProjectOf and Log are required. Serve runs it, and Close ends the servers.
type Gate struct {
	Registry *Registry
	// ProjectOf is the project of a box. An error denies everything to it.
	ProjectOf func(ctx context.Context, box string) (string, error)
	Version   string
	Log       *slog.Logger

	wait sync.WaitGroup // for servers' ends

	mu       sync.Mutex
	closed   bool
	sessions map[key]*session
	calls    map[string]int    // of each box, under way
	env      map[string]string // variables that registrations name, from the latest caller
}

// key is whose a session is.
type key struct{ box, project, server string }

const (
	maxRequest = 4 << 20 // bytes of a box's request
	maxCalls   = 16      // of a box at once
	separator  = "__"    // between a server's name and its tool's
)

// Remember keeps the variables that registrations name, in memory, as the daemon's own environment is
// that of its first caller.
func (g *Gate) Remember(environ []string) {
	all, err := g.Registry.List()
	if err != nil {
		return // whoever asked is told by the registry itself
	}
	names := map[string]bool{}
	for _, s := range all {
		for _, from := range s.Env {
			names[from.Target] = true
		}
		for _, from := range s.Headers {
			names[from.Target] = true
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.env == nil {
		g.env = map[string]string{}
	}
	for _, kv := range environ {
		if name, v, _ := strings.Cut(kv, "="); names[name] {
			g.env[name] = v
		}
	}
}

func (g *Gate) variable(name string) (string, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v, ok := g.env[name]
	return v, ok
}

// Close ends all servers and waits for them.
func (g *Gate) Close() {
	g.mu.Lock()
	g.closed = true
	all := g.sessions
	g.sessions = nil
	g.mu.Unlock()
	for _, s := range all {
		s.close()
	}
	g.wait.Wait()
}

// ServeHTTP answers a request of the box that the connection belongs to.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	box, ok := boxOf(r)
	if !ok || !g.enter(box) {
		http.Error(w, "agentbox: too many calls at once", http.StatusTooManyRequests)
		return
	}
	defer g.leave(box)
	project, err := g.ProjectOf(r.Context(), box)
	var servers []api.ToolServer
	if err == nil {
		servers, err = g.Registry.For(project)
	}
	if err != nil {
		http.Error(w, "agentbox: "+agentbox.AsError(err).Message, http.StatusForbidden)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
	did := &notes{of: func(note string) { g.Log.Info("tools", "box", box, "project", project, "request", note) }}
	serve := func(*http.Request) *mcp.Server { return g.server(r.Context(), box, project, servers, did) }
	options := &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, DisableLocalhostProtection: true}
	mcp.NewStreamableHTTPHandler(serve, options).ServeHTTP(&noting{ResponseWriter: w, notes: did}, r)
}

func (g *Gate) enter(box string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.calls == nil {
		g.calls = map[string]int{}
	}
	if g.closed || g.calls[box] >= maxCalls {
		return false
	}
	g.calls[box]++
	return true
}

func (g *Gate) leave(box string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.calls[box]--; g.calls[box] == 0 {
		delete(g.calls, box)
	}
}

// server makes what one request sees: the tools of all servers. One that does not answer takes
// nothing from the others, and is named in the instructions. What is done goes to did.
func (g *Gate) server(ctx context.Context, box, project string, servers []api.ToolServer, did *notes) *mcp.Server {
	about := "These tools run outside of this box, on its host, by servers that the host's user registered. A call that is denied says why."
	type found struct {
		session *session
		tools   []*mcp.Tool
	}
	var all []found
	for _, s := range servers {
		at, err := g.session(key{box, project, s.Name}, s)
		var tools []*mcp.Tool
		if err == nil {
			_, tools, err = at.open(ctx, g)
		}
		if err != nil {
			g.Log.Warn("an MCP server does not work", "server", s.Name, "box", box, "error", err)
			about += "\nThe server " + s.Name + " does not work now; the host's user finds out why by agentbox daemon log."
			continue
		}
		all = append(all, found{at, tools})
	}
	m := mcp.NewServer(&mcp.Implementation{Name: "agentbox-tools", Version: g.Version}, &mcp.ServerOptions{Instructions: about, Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}})
	m.AddReceivingMiddleware(did.middleware)
	for _, f := range all {
		for _, t := range f.tools {
			named := *t
			named.Name = f.session.server.Name + separator + t.Name
			m.AddTool(&named, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				args, err := allow(f.session.server, t.Name, req.Params.Arguments)
				if err != nil {
					did.add("denied: " + err.Error())
					return denied(err), nil
				}
				return f.session.call(ctx, g, t.Name, args)
			})
		}
	}
	return m
}

// session returns the session of a box with a server. A registration that changed begins a new one.
func (g *Gate) session(k key, server api.ToolServer) (*session, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, errors.New("the daemon ends")
	}
	s := g.sessions[k]
	if s != nil && reflect.DeepEqual(s.server, server) {
		return s, nil
	}
	if s != nil {
		g.wait.Go(s.close)
	} else if len(g.sessions) >= maxSessions && !g.dropIdle() {
		return nil, fmt.Errorf("%d MCP servers run for boxes, the most there may be", maxSessions)
	}
	if g.sessions == nil {
		g.sessions = map[key]*session{}
	}
	g.sessions[k] = &session{server: server}
	return g.sessions[k], nil
}

// dropIdle forgets the sessions without a server.
func (g *Gate) dropIdle() bool {
	n := len(g.sessions)
	for k, s := range g.sessions {
		if s.mu.TryLock() { // one that connects is in use
			if s.conn == nil {
				delete(g.sessions, k)
			}
			s.mu.Unlock()
		}
	}
	return len(g.sessions) < n
}

// denied is an answer that the agent can act on.
func denied(err error) *mcp.CallToolResult {
	text := "denied: " + err.Error() + ". The host's user decides that: agentbox mcp ls shows the rules."
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

func (s *session) call(ctx context.Context, g *Gate, tool string, args map[string]any) (*mcp.CallToolResult, error) {
	conn, _, err := s.open(ctx, g)
	if err != nil {
		return nil, err
	}
	return conn.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
}
