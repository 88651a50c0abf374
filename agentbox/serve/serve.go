package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/net/netutil"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/client"
	"agentbox/agentbox/door"
	"agentbox/agentbox/e2b"
	"agentbox/agentbox/mcp"
	"agentbox/agentbox/page"
)

// Config is what is served and where.
type Config struct {
	Socket string // of the daemon
	Client string // path of the program that users run, which can start a daemon
	Listen string // HOST:PORT
	Names  []string
	// Cert and Key are files of a certificate for TLS. Without, only loopback addresses are served.
	Cert, Key string
	E2B       string // serve the E2B SDK, with sandboxes of this checkout
	Page      bool   // print the page's address only
	Quiet     bool   // print the address only
	Version   string
	Out       io.Writer
	Log       *slog.Logger
}

const (
	maxConns      = 1024
	headerTime    = 10 * time.Second
	idleTime      = 2 * time.Minute
	shutdownGrace = 3 * time.Second
)

// newDoor returns a door to the daemon. The caller calls done when nothing calls it any more.
func newDoor(c Config) (d *door.Door, done func()) {
	daemon := api.NewClient(c.Socket)
	start := func(ctx context.Context) error {
		if out, err := exec.CommandContext(ctx, c.Client, "daemon", "start", "--quiet").CombinedOutput(); err != nil {
			return agentbox.Errorf(agentbox.Unavailable, "the daemon does not start: %w: %s", err, agentbox.Printable(string(out))).WithHint("agentbox daemon log shows why")
		}
		return nil
	}
	tools := func(d *door.Door) http.Handler {
		return mcp.Handler(door.GrantOf, func(grant api.Token) mcp.Server {
			return mcp.Server{Client: client.Of(d.Client(grant)), Version: c.Version}
		})
	}
	cfg := door.Config{Daemon: daemon, Start: start, Names: c.Names, Page: page.Handler(), MCP: tools, Log: c.Log}
	close := func() {}
	if c.E2B != "" {
		cfg.Face = func(d *door.Door) door.Face {
			f := e2b.New(e2b.Config{Door: d, Directory: c.E2B, Names: c.Names, Log: c.Log})
			close = f.Close
			return f
		}
	}
	d = door.New(cfg)
	return d, func() {
		close()
		d.Close()
		daemon.Close()
	}
}

// Run serves until ctx ends.
func Run(ctx context.Context, c Config) error {
	l, err := listen(c)
	if err != nil {
		return err
	}
	d, done := newDoor(c)
	defer done()
	// Streams end with ctx, so that they do not delay the end.
	server := &http.Server{Handler: d, BaseContext: func(net.Listener) context.Context { return ctx }, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime,
		ErrorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug)}
	announce(c, l.Addr(), d)
	served := make(chan error, 1)
	go func() {
		if c.Cert != "" {
			served <- server.ServeTLS(l, c.Cert, c.Key)
			return
		}
		served <- server.Serve(l)
	}()
	select {
	case err = <-served:
	case <-ctx.Done():
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
		defer cancel()
		if server.Shutdown(grace) != nil {
			server.Close()
		}
		<-served
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// listen opens the address. A token in plain text is for this machine only.
func listen(c Config) (net.Listener, error) {
	if (c.Cert == "") != (c.Key == "") {
		return nil, agentbox.Errorf(agentbox.Invalid, "TLS needs both a certificate and its key").WithHint("give --tls-cert and --tls-key")
	}
	if c.Cert != "" {
		if _, err := tls.LoadX509KeyPair(c.Cert, c.Key); err != nil {
			return nil, agentbox.Errorf(agentbox.Invalid, "cannot use the certificate: %w", err)
		}
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Invalid, "cannot listen on %s: %w", c.Listen, err).WithHint("--listen 127.0.0.1:0 takes a free port")
	}
	if at, ok := l.Addr().(*net.TCPAddr); c.Cert == "" && (!ok || !at.IP.IsLoopback()) {
		l.Close()
		return nil, agentbox.Errorf(agentbox.Invalid, "%s can be reached from other machines, and tokens would be sent unencrypted", c.Listen).
			WithHint("give --tls-cert and --tls-key, or listen on 127.0.0.1 and use ssh -L")
	}
	return netutil.LimitListener(l, maxConns), nil
}

// announce prints where the door is. The code in the page's address is for one use.
func announce(c Config, at net.Addr, d *door.Door) {
	base := "http://" + at.String()
	if c.Cert != "" {
		base = "https://" + at.String()
	}
	address := base + "/#" + d.Code()
	switch {
	case c.Page && c.Quiet:
		fmt.Fprintln(c.Out, address)
	case c.Page:
		fmt.Fprintf(c.Out, "page  %s\n", address)
		open(address)
	case c.Quiet:
		fmt.Fprintln(c.Out, base)
	default:
		fmt.Fprintf(c.Out, "api   %s (agentbox token create makes a token)\nmcp   %s/mcp\npage  %s\n", base, base, address)
		if c.E2B != "" {
			fmt.Fprintf(c.Out, "e2b   E2B_API_URL=%s E2B_SANDBOX_URL=%s, with a token as E2B_API_KEY\n", base, base)
		}
	}
}

// open shows a page where there is a screen. Where there is none, the address is printed anyway.
func open(page string) {
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return
	}
	_ = exec.Command("xdg-open", page).Start()
}

// Stdio serves one MCP client on standard input and output until it goes or ctx ends.
func Stdio(ctx context.Context, c Config, scope api.Scope) error {
	d, done := newDoor(c)
	defer done()
	dir, err := os.Getwd()
	if err != nil {
		dir = ""
	}
	here := d.Client(api.Token{ID: "mcp", Scope: scope})
	defer here.Close()
	err = mcp.Server{Client: client.Of(here), Directory: dir, Version: c.Version}.New().Run(ctx, new(sdk.StdioTransport))
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
