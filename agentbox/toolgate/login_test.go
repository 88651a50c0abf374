package toolgate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// authority is an authorization server beside the MCP server next, which it lets no one to without its
// latest token.
type authority struct {
	next http.Handler
	url  string

	mu      sync.Mutex
	tokens  int  // given
	expires int  // seconds of each
	revoked bool // no token is renewed any more
}

func (a *authority) token() string { return fmt.Sprint("access-", a.tokens) }

func (a *authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	reply := func(v map[string]any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	switch r.URL.Path {
	case "/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp":
		reply(map[string]any{"resource": a.url + "/mcp", "authorization_servers": []string{a.url}})
	case "/.well-known/oauth-authorization-server":
		reply(map[string]any{
			"issuer": a.url, "authorization_endpoint": a.url + "/authorize", "token_endpoint": a.url + "/token", "registration_endpoint": a.url + "/register",
			"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none"},
		})
	case "/register":
		w.WriteHeader(http.StatusCreated)
		reply(map[string]any{"client_id": "registered", "redirect_uris": []string{"http://127.0.0.1/"}, "token_endpoint_auth_method": "none"})
	case "/token":
		_ = r.ParseForm()
		renewed := r.Form.Get("grant_type") == "refresh_token"
		if a.revoked && renewed || renewed && r.Form.Get("refresh_token") != fmt.Sprint("refresh-", a.tokens) || !renewed && r.Form.Get("code") != "code" {
			w.WriteHeader(http.StatusBadRequest)
			reply(map[string]any{"error": "invalid_grant"})
			return
		}
		a.tokens++
		reply(map[string]any{"access_token": a.token(), "token_type": "Bearer", "refresh_token": fmt.Sprint("refresh-", a.tokens), "expires_in": a.expires})
	default:
		if r.Header.Get("Authorization") != "Bearer "+a.token() || a.tokens == 0 {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+a.url+`/.well-known/oauth-protected-resource"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		a.next.ServeHTTP(w, r)
	}
}

// person is what a browser and its user do with a page.
func person(t *testing.T, answer url.Values) func(page string) {
	return func(page string) {
		u, err := url.Parse(page)
		if err != nil {
			t.Error(err)
			return
		}
		go func() {
			for _, state := range []string{"another's", u.Query().Get("state")} { // what is not an answer is passed over
				answer.Set("state", state)
				resp, err := http.Get(u.Query().Get("redirect_uri") + "?" + answer.Encode())
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}
		}()
	}
}

func (w *world) behind(a *authority) api.ToolServer {
	remote, _ := url.Parse(w.remote)
	a.next = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		r.Header.Del("Authorization")
		r.URL.Scheme, r.URL.Host, r.RequestURI = remote.Scheme, remote.Host, ""
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			rw.WriteHeader(http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		for name, v := range resp.Header {
			rw.Header()[name] = v
		}
		rw.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(rw, resp.Body)
	})
	s := httptest.NewServer(a)
	w.Cleanup(s.Close)
	a.url = s.URL
	w.gate.Registry.Logins = filepath.Join(w.TempDir(), "mcp-logins.json")
	server := api.ToolServer{Name: "remote", Project: "project", URL: s.URL + "/mcp"}
	w.add(server)
	return server
}

// Who logged in has the tools in boxes, with tokens that are renewed and that no box sees; until the server
// renews them no more, or the registration goes.
func TestLogin(t *testing.T) {
	w, a := newWorld(t), &authority{expires: 3600}
	server := w.behind(a)
	if _, got := w.send(box, tools); strings.Contains(got, "remote__echo") {
		t.Fatalf("without a login: %s", got)
	}
	if err := w.gate.Login(t.Context(), server, "", person(t, url.Values{"code": {"code"}, "iss": {a.url}})); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(w.gate.Registry.Logins); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	_, got := w.send(box, call("remote__echo", "hello"))
	if !strings.Contains(got, "echo said hello") || strings.Contains(got, "access-") {
		t.Errorf("%s", got)
	}
	expire := func() {
		_ = w.gate.Registry.changeLogins(func(all map[string]login) {
			for _, l := range all {
				l.Token.Expiry = l.Token.Expiry.AddDate(-1, 0, 0)
			}
		})
	}
	expire()
	if _, got := w.send(box, call("remote__echo", "again")); !strings.Contains(got, "echo said again") || a.tokens != 2 {
		t.Errorf("after it expired: %s, %d tokens", got, a.tokens)
	}
	a.revoked = true
	expire()
	if _, err := (kept{w.gate.Registry, server}).Token(); agentbox.CodeOf(err) != agentbox.Unauthorized || !strings.Contains(err.Error(), "agentbox mcp login remote") {
		t.Errorf("when it is not renewed: %v", err)
	}
	if err := w.gate.Registry.Remove("remote", "project"); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(w.gate.Registry.Logins); strings.Contains(string(b), "refresh-") {
		t.Errorf("after its removal: %s", b)
	}
}

// A registration with another URL does not get the tokens of the former.
func TestLoginIsForOneURL(t *testing.T) {
	w, a := newWorld(t), &authority{expires: 3600}
	server := w.behind(a)
	if err := w.gate.Login(t.Context(), server, "mine", person(t, url.Values{"code": {"code"}})); err != nil {
		t.Fatal(err)
	}
	server.URL = "https://other.example/mcp"
	if token, err := (kept{w.gate.Registry, server}).Token(); agentbox.CodeOf(err) != agentbox.Unauthorized {
		t.Errorf("%v, %v", token, err)
	}
}

// Tokens that the login itself has renewed are those that are kept.
func TestLoginOfShortTokens(t *testing.T) {
	w, a := newWorld(t), &authority{expires: 1}
	if err := w.gate.Login(t.Context(), w.behind(a), "", person(t, url.Values{"code": {"code"}})); err != nil {
		t.Fatal(err)
	}
	if _, got := w.send(box, call("remote__echo", "hello")); !strings.Contains(got, "echo said hello") {
		t.Errorf("%s", got)
	}
}

func TestLoginRefused(t *testing.T) {
	w, a := newWorld(t), &authority{}
	server := w.behind(a)
	for name, c := range map[string]struct {
		server api.ToolServer
		answer url.Values
		code   agentbox.Code
	}{
		"by its user":      {server, url.Values{"error": {"access_denied"}}, agentbox.Unauthorized},
		"a wrong code":     {server, url.Values{"code": {"x"}}, agentbox.Unauthorized},
		"another's answer": {server, url.Values{"code": {"code"}, "iss": {"https://evil.example"}}, agentbox.Unauthorized},
		"a command":        {api.ToolServer{Name: "c", Command: []string{"x"}}, nil, agentbox.Invalid},
		"no login":         {api.ToolServer{Name: "open", URL: w.remote}, nil, agentbox.Conflict},
	} {
		if err := w.gate.Login(t.Context(), c.server, "", person(t, c.answer)); agentbox.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := w.gate.Login(ctx, server, "", func(string) { cancel() }); err == nil {
		t.Error("nobody logged in, and it worked")
	}
	if _, err := os.Stat(w.gate.Registry.Logins); !os.IsNotExist(err) {
		t.Errorf("something was kept: %v", err)
	}
}

// A server elsewhere does not have this machine ask what is without TLS, and opens no file.
func TestLoginPages(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	for server, want := range map[string]bool{s.URL: true, "https://mcp.example.com/mcp": false} {
		resp, err := clientFor(server).Get(s.URL)
		if (err == nil) != want {
			t.Errorf("for %s: %v", server, err)
		}
		if err == nil {
			resp.Body.Close()
		}
	}
	for _, page := range []string{"file:///etc/passwd", "http://example.com/", "javascript:alert(1)", "--help", "\x00"} {
		if _, err := (&callback{}).fetch(t.Context(), page, func(page string) { t.Errorf("opened %q", page) }); err == nil {
			t.Errorf("%q is a page", page)
		}
	}
}
