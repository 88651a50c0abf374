package door

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sync/semaphore"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// Config is what a Door needs.
type Config struct {
	Daemon *api.Client
	// Start starts the daemon again if none runs.
	Start func(context.Context) error
	// Names are host names, beside localhost and addresses, by which the door may be called.
	Names []string
	// Page is what is served to browsers without a token.
	Page http.Handler
	// MCP serves /mcp; GrantOf tells it whose a request is, and Door.Client acts for them.
	MCP func(*Door) http.Handler
	// Face, if not nil, makes a handler of another protocol.
	Face func(*Door) Face
	Log  *slog.Logger
}

// Face is another protocol at the same port. It asks for tokens by itself (Door.Check), and acts for
// their holders as any client does (Door.Client, Door.Dial).
type Face interface {
	http.Handler
	// OwnsHost tells whether all requests to a host are the face's, whatever page they are of; such a
	// host is not the door's.
	OwnsHost(host string) bool
	OwnsPath(path string) bool
}

// Door is an http.Handler. Close it when nothing calls it any more.
type Door struct {
	Config
	calls    map[string]api.PublicCall
	mcp      http.Handler
	face     Face
	sessions sessions
	rates    rates
	replays  replays
	heavy    *semaphore.Weighted // what is run or copied at once; the rest waits

	local   *pipes
	inside  *http.Server
	serving sync.WaitGroup
}

// maxHeavy bounds what is run or copied at once, because each holds its output in memory.
const maxHeavy = 128

// New returns a door.
func New(c Config) *Door {
	d := &Door{Config: c, calls: map[string]api.PublicCall{}, heavy: semaphore.NewWeighted(maxHeavy)}
	for _, call := range api.Public() {
		d.calls[call.Path] = call
	}
	d.local = &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	if c.MCP != nil {
		d.mcp = c.MCP(d)
	}
	if c.Face != nil {
		d.face = c.Face(d)
	}
	d.serveLocal() // last: a face may call by itself from its beginning on
	return d
}

// ServeHTTP implements http.Handler.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.face != nil && d.face.OwnsHost(r.Host) {
		d.face.ServeHTTP(w, r)
		return
	}
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	if err := d.checkSource(r); err != nil {
		fail(w, err)
		return
	}
	switch {
	case r.URL.Path == "/v1/openapi.json":
		h.Set("Content-Type", "application/json")
		_, _ = w.Write(Document)
	case r.URL.Path == loginPath:
		d.login(w, r)
	case r.URL.Path == "/mcp", strings.HasPrefix(r.URL.Path, "/v1/"):
		d.withToken(w, r)
	case d.face != nil && d.face.OwnsPath(r.URL.Path):
		d.face.ServeHTTP(w, r)
	case d.Page != nil && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		d.Page.ServeHTTP(w, r)
	default:
		fail(w, unknownPath(r))
	}
}

func unknownPath(r *http.Request) error {
	return agentbox.Errorf(agentbox.NotFound, "there is no %s %s", r.Method, agentbox.Printable(r.URL.Path)).WithHint("GET /v1/openapi.json describes every call")
}

func (d *Door) withToken(w http.ResponseWriter, r *http.Request) {
	grant, err := d.grantOf(r)
	if err == nil {
		err = d.rates.allow(grant)
	}
	if err != nil {
		fail(w, err)
		return
	}
	ctx := context.WithValue(r.Context(), grantKey{}, grant)
	if !grant.Expires.IsZero() {
		var cancel func()
		ctx, cancel = context.WithDeadlineCause(ctx, grant.Expires, agentbox.Errorf(agentbox.Unauthorized, "the token %s has expired", grant.ID))
		defer cancel()
	}
	r = r.WithContext(ctx)
	call, public := d.calls[r.URL.Path]
	switch {
	case r.URL.Path == "/mcp" && d.mcp != nil:
		d.mcp.ServeHTTP(w, r)
	case r.URL.Path == terminalPath:
		d.terminal(w, r, grant)
	case public:
		d.serveCall(w, r, grant, call)
	default:
		fail(w, unknownPath(r))
	}
}

// checkSource refuses requests that name another host, as those of a page whose name was made to
// lead here, and requests of other pages.
func (d *Door) checkSource(r *http.Request) error {
	if !d.isOurs(r.Host) {
		return agentbox.Errorf(agentbox.Forbidden, "this is not %s", agentbox.Printable(r.Host)).WithHint("agentbox serve --name NAME serves under another name")
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		if site := r.Header.Get("Sec-Fetch-Site"); site == "" || site == "same-origin" || site == "none" {
			return nil
		}
	}
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	if origin == scheme+r.Host {
		return nil
	}
	return agentbox.Errorf(agentbox.Forbidden, "a page of another site (%s) may not call this", agentbox.Printable(origin))
}

// isOurs reports whether a Host header names this machine, which no name server can redirect.
func (d *Door) isOurs(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return name == "localhost" || slices.Contains(d.Names, name)
}

type grantKey struct{}

// again does what calls the daemon. If no daemon runs, it starts one and does it once more.
func (d *Door) again(ctx context.Context, do func() error) error {
	err := do()
	if d.Start == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED) || !api.IsUnreachable(err) {
		return err
	}
	if err := d.Start(ctx); err != nil {
		return err
	}
	return do()
}

func daemon[Req, Resp any](ctx context.Context, d *Door, e api.Endpoint[Req, Resp], req Req, progress agentbox.Progress) (resp Resp, err error) {
	err = d.again(ctx, func() error {
		resp, err = api.Call(ctx, d.Daemon, e, req, progress)
		return err
	})
	return resp, err
}
