package mcp

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentbox/agentbox/api"
)

const (
	sessionHeader = "Mcp-Session-Id"
	versionHeader = "Mcp-Protocol-Version"
	oldestVersion = "2025-03-26" // of clients that send no such header
)

// sessions goes on with a client's session that this process does not know: an earlier one began it, or
// it was silent for too long. The specification has a client begin anew at the answer 404; those of both
// SDKs fail for good instead (findings/mcp-lost-session.sh). A session has no state but its token's, so
// nothing is lost. It is still a session, as a call's cancellation is a request of its own.
type sessions struct {
	grantOf   func(*http.Request) (api.Token, error)
	serverFor func(api.Token) Server
	sdk       http.Handler

	resuming sync.Mutex
	mu       sync.Mutex
	began    map[string]*mcp.Server // by the session's ID, which is the only one of its server
}

// ServeHTTP implements http.Handler.
func (s *sessions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(sessionHeader)
	if grant, err := s.grantOf(r); err == nil && belongs(id, grant) {
		s.resume(r, id)
	}
	s.sdk.ServeHTTP(w, r)
}

// resumed is the key of the ID that a request's session shall have.
type resumed struct{}

// server makes the tools for a request's token. The SDK asks at each request, and for the ID where the
// request begins a session.
func (s *sessions) server(r *http.Request) *mcp.Server {
	grant, err := s.grantOf(r)
	if err != nil {
		return nil // it answers 400; the door has refused such requests
	}
	var m *mcp.Server
	m = s.serverFor(grant).new(func() string {
		id, _ := r.Context().Value(resumed{}).(string)
		if id == "" {
			id = newID(grant)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		maps.DeleteFunc(s.began, func(_ string, old *mcp.Server) bool { return !connected(old) })
		s.began[id] = m
		return id
	})
	return m
}

// resume begins the session that a request is of if it is not there, as its client once did.
func (s *sessions) resume(r *http.Request, id string) {
	s.resuming.Lock()
	defer s.resuming.Unlock()
	s.mu.Lock()
	m := s.began[id]
	s.mu.Unlock()
	if m != nil && connected(m) {
		return
	}
	version := r.Header.Get(versionHeader)
	if version == "" {
		version = oldestVersion
	}
	s.post(r, "", id, fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,`+
		`"capabilities":{},"clientInfo":{"name":"resumed","version":""}}}`, version))
	s.post(r, id, id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// post has the SDK answer a client's message that came before r, and drops the answer. What fails here,
// fails again for r, with an answer.
func (s *sessions) post(r *http.Request, session, id, body string) {
	p := r.Clone(context.WithValue(r.Context(), resumed{}, id))
	p.Method, p.Body, p.ContentLength = http.MethodPost, io.NopCloser(strings.NewReader(body)), int64(len(body))
	p.Header.Set("Content-Type", "application/json")
	p.Header.Set("Accept", "application/json, text/event-stream")
	p.Header.Del("Last-Event-Id")
	if p.Header.Del(sessionHeader); session != "" {
		p.Header.Set(sessionHeader, session)
	}
	s.sdk.ServeHTTP(dropped{}, p)
}

func connected(m *mcp.Server) bool {
	for range m.Sessions() {
		return true
	}
	return false
}

// newID returns a session's ID, which says whose it is: NONCE-DIGEST.
func newID(grant api.Token) string {
	nonce := rand.Text()
	return nonce + "-" + owner(nonce, grant)
}

// belongs reports whether newID gave an ID for a token.
func belongs(id string, grant api.Token) bool {
	nonce, digest, ok := strings.Cut(id, "-")
	return ok && len(nonce) == len(rand.Text()) && digest == owner(nonce, grant)
}

func owner(nonce string, grant api.Token) string {
	digest := sha256.Sum256([]byte(nonce + grant.ID))
	return hex.EncodeToString(digest[:16])
}

// dropped is an answer that nobody reads.
type dropped struct{}

func (dropped) Header() http.Header         { return http.Header{} }
func (dropped) Write(p []byte) (int, error) { return len(p), nil }
func (dropped) WriteHeader(int)             {}
func (dropped) Flush()                      {}
