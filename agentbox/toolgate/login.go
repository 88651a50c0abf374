package toolgate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/durable"
)

// login is what a login at a server left: its tokens, and by what they are renewed.
type login struct {
	URL      string           `json:"url"` // of the server; a registration with another has none
	ClientID string           `json:"client_id"`
	Secret   string           `json:"client_secret,omitempty"`
	TokenURL string           `json:"token_url"`
	Style    oauth2.AuthStyle `json:"auth_style"`
	Token    *oauth2.Token    `json:"token"`
}

const (
	loginTime = 10 * time.Minute // for a person in a browser
	renewTime = 30 * time.Second
)

// Login logs the user in at a server by OAuth: it has the page of the server's choice opened, waits until
// that leads back to this machine, and keeps the tokens. clientID is of a client that the server knows;
// with "", one is registered. The error is Conflict if the server asks for no login.
func (g *Gate) Login(ctx context.Context, s api.ToolServer, clientID string, open func(page string)) error {
	if s.URL == "" {
		return agentbox.Errorf(agentbox.Invalid, "%s is a command of this machine, which logs in by itself", s.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, loginTime)
	defer cancel()
	back, err := newCallback()
	if err != nil {
		return err
	}
	defer back.server.Close()
	var got *login
	config := &auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "agentbox", RedirectURIs: []string{back.url}, TokenEndpointAuthMethod: "none",
			GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
		}},
		RedirectURL: back.url, RequestRefreshToken: true, AcceptUnadvertisedIss: true, Client: clientFor(s.URL),
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			return back.fetch(ctx, args.URL, open)
		},
		NewTokenSource: func(ctx context.Context, c *oauth2.Config, t *oauth2.Token) (oauth2.TokenSource, error) {
			got = &login{s.URL, c.ClientID, c.ClientSecret, c.Endpoint.TokenURL, c.Endpoint.AuthStyle, t}
			return renewals{c.TokenSource(ctx, t), got}, nil
		},
	}
	if clientID != "" {
		config.PreregisteredClient = &oauthex.ClientCredentials{ClientID: clientID}
	}
	handler, err := auth.NewAuthorizationCodeHandler(config)
	if err != nil {
		return err
	}
	transport := &mcp.StreamableClientTransport{Endpoint: s.URL, HTTPClient: g.client(s), OAuthHandler: handler, DisableStandaloneSSE: true}
	conn, err := mcp.NewClient(&mcp.Implementation{Name: "agentbox", Version: g.Version}, nil).Connect(ctx, transport, nil)
	if err != nil {
		return agentbox.Errorf(agentbox.Unauthorized, "cannot log in at %s: %s", s.Name, agentbox.Printable(err.Error()))
	}
	_ = conn.Close()
	if got == nil {
		return agentbox.Errorf(agentbox.Conflict, "%s asks for no login", s.Name)
	}
	return g.Registry.changeLogins(func(all map[string]login) { all[loginKey(s)] = *got })
}

// renewals are tokens of the time of the login itself. The last is the one to keep: servers take a former
// one for a thief's.
type renewals struct {
	from oauth2.TokenSource
	to   *login
}

// Token implements oauth2.TokenSource. The SDK makes one request after the other.
func (r renewals) Token() (*oauth2.Token, error) {
	t, err := r.from.Token()
	if err == nil {
		r.to.Token = t
	}
	return t, err
}

// clientFor makes the requests of a login: to servers with TLS, or, for a server on this machine, on this
// machine. A server names the others, and must not lead to what only this machine reaches in the clear.
func clientFor(server string) *http.Client {
	u, err := url.Parse(server)
	here := err == nil && onLoopback(u)
	return &http.Client{Timeout: renewTime, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.Scheme != "https" && (!here || !onLoopback(r.URL)) {
			return nil, fmt.Errorf("%s is without TLS", r.URL.Redacted())
		}
		return http.DefaultTransport.RoundTrip(r)
	})}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

func onLoopback(u *url.URL) bool {
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}

// callback is where the browser is led to after a login.
type callback struct {
	url    string
	server *http.Server
	came   chan url.Values
}

func newCallback() (*callback, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &callback{url: "http://" + l.Addr().String() + "/", came: make(chan url.Values)}
	c.server = &http.Server{Handler: c, ReadHeaderTimeout: renewTime}
	go func() { _ = c.server.Serve(l) }()
	return c, nil
}

// ServeHTTP implements http.Handler.
func (c *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case c.came <- r.URL.Query():
		fmt.Fprintln(w, "agentbox knows now how this ended. You can close this page.")
	case <-r.Context().Done():
	case <-time.After(renewTime):
	}
}

// fetch has the page opened, and waits for its answer: what comes without its state is not that.
func (c *callback) fetch(ctx context.Context, page string, open func(string)) (*auth.AuthorizationResult, error) {
	u, err := url.Parse(page)
	if err != nil || u.Scheme != "https" && !(u.Scheme == "http" && onLoopback(u)) {
		return nil, fmt.Errorf("%.100q is no page for a browser", page)
	}
	open(page)
	for {
		select {
		case q := <-c.came:
			switch {
			case q.Get("state") != u.Query().Get("state"):
				continue
			case q.Get("error") != "":
				return nil, fmt.Errorf("it was refused: %s", agentbox.Clip(q.Get("error")+" "+q.Get("error_description")))
			}
			return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
		case <-ctx.Done():
			return nil, errors.New("nobody logged in")
		}
	}
}

// kept is the login at a server as requests use it. It implements auth.OAuthHandler.
type kept struct {
	registry *Registry
	server   api.ToolServer
}

// TokenSource implements auth.OAuthHandler.
func (k kept) TokenSource(context.Context) (oauth2.TokenSource, error) {
	all, err := k.registry.logins()
	if _, ok := all[loginKey(k.server)]; err != nil || !ok {
		return nil, err
	}
	return k, nil
}

// Token implements oauth2.TokenSource: it renews the tokens once for all that use them, and keeps them.
func (k kept) Token() (*oauth2.Token, error) {
	k.registry.renewing.Lock()
	defer k.registry.renewing.Unlock()
	all, err := k.registry.logins()
	l, ok := all[loginKey(k.server)]
	if err != nil || !ok || l.URL != k.server.URL {
		return nil, errors.Join(err, k.again())
	}
	if l.Token.Valid() {
		return l.Token, nil
	}
	config := oauth2.Config{ClientID: l.ClientID, ClientSecret: l.Secret, Endpoint: oauth2.Endpoint{TokenURL: l.TokenURL, AuthStyle: l.Style}}
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), oauth2.HTTPClient, clientFor(l.URL)), renewTime)
	defer cancel()
	if l.Token, err = config.TokenSource(ctx, l.Token).Token(); err != nil {
		var refused *oauth2.RetrieveError
		if errors.As(err, &refused) { // its text may quote what was sent
			return nil, k.again()
		}
		return nil, fmt.Errorf("cannot renew the login at %s: %w", k.server.Name, err)
	}
	return l.Token, k.registry.changeLogins(func(all map[string]login) { all[loginKey(k.server)] = l })
}

// Authorize implements auth.OAuthHandler. Only the user logs in.
func (k kept) Authorize(_ context.Context, _ *http.Request, resp *http.Response) error {
	defer resp.Body.Close()
	return k.again()
}

func (k kept) again() error {
	return agentbox.Errorf(agentbox.Unauthorized, "%s wants a login: agentbox mcp login %s", k.server.Name, k.server.Name)
}

func loginKey(s api.ToolServer) string { return s.Name + " " + s.Project }

func (r *Registry) logins() (map[string]login, error) {
	b, err := os.ReadFile(r.Logins)
	all := map[string]login{}
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Corrupt, "cannot read the logins at MCP servers: %w", err).WithHint("remove %s, and log in again by agentbox mcp login NAME", r.Logins)
	}
	return all, nil
}

func (r *Registry) changeLogins(change func(map[string]login)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, err := r.logins()
	if err != nil {
		return err
	}
	change(all)
	b, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(r.Logins, append(b, '\n'), 0o600)
}
