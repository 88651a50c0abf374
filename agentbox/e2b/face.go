package e2b

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/background"
)

// Door is what the face is a client of (agentbox/door).
type Door interface {
	Check(ctx context.Context, text string) (api.Token, error)
	Seal(ctx context.Context, id, text string) (api.Seal, error)
	Client(api.Token) *api.Client
	Dial(ctx context.Context, grant api.Token, ref api.BoxRef, user string) (api.Connection, *ssh.Client, error)
}

// Config is what a Face needs.
type Config struct {
	Door      Door
	Directory string   // the checkout that a sandbox is made of, unless its template is another one
	Names     []string // host names of this machine, beside localhost
	Log       *slog.Logger
}

// Face is an http.Handler, and a door.Face. Close it when nothing calls it any more.
type Face struct {
	Config
	rest  *http.ServeMux
	inner *http.ServeMux // what a sandbox answers at port 49983
	conns connections
	ends  chan struct{} // a sandbox ends before nextEnd
	work  background.Group
	stop  context.CancelFunc

	making sync.Map // the ends (labelEnd) of sandboxes that are not answered with yet

	mu      sync.Mutex
	inputs  map[inputKey]*inputOf
	loads   map[agentbox.BoxID]load
	seals   map[sealKey]string
	nextEnd time.Time // when the time of a sandbox is over next
}

// sandboxPort is where E2B serves what is inside of a sandbox.
const sandboxPort = 49983

// New returns a face, which ends sandboxes when their time is over until it is closed.
func New(c Config) *Face {
	f := &Face{Config: c, rest: http.NewServeMux(), inner: http.NewServeMux(), ends: make(chan struct{}, 1),
		inputs: map[inputKey]*inputOf{}, loads: map[agentbox.BoxID]load{}, seals: map[sealKey]string{}}
	f.conns.dial = c.Door.Dial
	f.routes()
	f.processes()
	f.filesystem()
	f.inner.HandleFunc("GET /files", inSandbox(f.download))
	f.inner.HandleFunc("POST /files", inSandbox(f.upload))
	f.inner.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	f.work.Go(func() { f.endSandboxes(ctx) })
	return f
}

// Close ends what the face does by itself.
func (f *Face) Close() {
	f.stop()
	f.conns.close()
	f.work.Close()
}

// ServeHTTP implements http.Handler.
func (f *Face) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	box, port, ofBox := f.splitHost(r.Host)
	switch {
	case ofBox && port != sandboxPort:
		f.servePort(w, r, box, port)
	case ofBox || isInner(r.URL.Path):
		f.serveInner(w, r, box)
	default:
		f.rest.ServeHTTP(w, r)
	}
}

// OwnsHost implements door.Face.
func (f *Face) OwnsHost(host string) bool {
	_, _, ok := f.splitHost(host)
	return ok
}

// OwnsPath implements door.Face.
func (f *Face) OwnsPath(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return isInner(path) || slices.Contains([]string{"sandboxes", "snapshots", "templates", "v2", "v3", "volumes"}, first)
}

func isInner(path string) bool {
	return path == "/files" || path == "/health" || strings.HasPrefix(path, "/process.Process/") || strings.HasPrefix(path, "/filesystem.Filesystem/")
}

// splitHost reads PORT-ID.NAME, with a port behind it or without, where NAME is of this machine.
func (f *Face) splitHost(host string) (box string, port int, ok bool) {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	first, name, _ := strings.Cut(strings.ToLower(host), ".")
	digits, id, found := strings.Cut(first, "-")
	if _, err := agentbox.ParseBoxID(id); !found || err != nil || name != "localhost" && !slices.Contains(f.Names, name) {
		return "", 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	return id, int(n), err == nil && n > 0
}

// domain is the NAME by which the servers of boxes are found from where a request came. An address
// has no names below it.
func (f *Face) domain(r *http.Request) string {
	host, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		host, port = r.Host, ""
	}
	host = strings.TrimPrefix(strings.ToLower(host), "api.")
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil || !slices.Contains(f.Names, host) {
		host = "localhost"
		if len(f.Names) > 0 {
			host = f.Names[0]
		}
	}
	if port == "" {
		return host
	}
	return net.JoinHostPort(host, port)
}
