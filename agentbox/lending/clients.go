package lending

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/agentbox/host/egress"
)

// Clients are secrets whose values cross the connections that machines keep to each other (reach): this
// one is asked for its values by the machines that its user works on, and asks those whose users work
// here. A value lies on no disk of the machine that asks, and passes for one request.
type Clients struct {
	Home     home.Home
	Log      *slog.Logger
	Policies *egress.Policies

	mu      sync.Mutex
	servers map[string]*http.Server // by host
}

// Lend is api.LendSecrets. Whoever reaches the socket, which ssh brings to the host, gets the values of
// the secrets that were set for it, and nothing else.
func (c *Clients) Lend(_ context.Context, req api.LendRequest, _ agentbox.Progress) (string, error) {
	path := c.Home.LendSocket(req.Host)
	if err := c.Policies.RememberEnv(req.Environ); err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.servers[req.Host] != nil {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", agentbox.MarkNoSpace(err)
	}
	l, err := api.Listen(path)
	if err != nil {
		return "", err
	}
	mux := http.NewServeMux()
	api.Handle(mux, api.LendValue, func(ctx context.Context, ask api.LentValue, _ agentbox.Progress) (string, error) {
		c.Log.Info("a secret is lent for a request", "secret", agentbox.Printable(agentbox.Clip(ask.Name)), "host", req.Host)
		return c.Policies.LentValue(ctx, req.Host, ask)
	})
	server := &http.Server{Handler: mux, ReadTimeout: lendTime, IdleTimeout: lendTime}
	if c.servers == nil {
		c.servers = map[string]*http.Server{}
	}
	c.servers[req.Host] = server
	go server.Serve(l)
	return path, nil
}

// lendTime bounds how long a host may take to ask, and what it is asked for to answer.
const lendTime = 30 * time.Second

// Open makes the sockets that an earlier daemon had, to whose names connections by ssh lead, and the
// directory where clients' connections make theirs.
func (c *Clients) Open(ctx context.Context) error {
	if err := os.MkdirAll(c.Home.Clients(), 0o700); err != nil {
		return agentbox.MarkNoSpace(err)
	}
	hosts, err := c.Policies.LentHosts()
	for _, host := range hosts {
		if _, err := c.Lend(ctx, api.LendRequest{Host: host}, nil); err != nil {
			return err
		}
	}
	return err
}

func (c *Clients) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.servers {
		s.Close()
	}
}

// ask asks a client for a value, by its newest connection that still is one. The error is Unavailable if
// it has none now.
func (c *Clients) ask(ctx context.Context, client string, ask api.LentValue) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lendTime)
	defer cancel()
	for _, socket := range c.sockets(client) {
		conn := api.NewClient(socket)
		v, err := api.Call(ctx, conn, api.LendValue, ask, nil)
		conn.Close()
		if !api.IsUnreachable(err) {
			return v, err
		}
		if ctx.Err() == nil {
			_ = os.Remove(socket) // its connection has ended
		}
	}
	return "", agentbox.Errorf(agentbox.Unavailable, "%s, which has the value of %s, is not connected", client, ask.Name).
		WithHint("there, agentbox --host NAME ls connects it")
}

// sockets are those that connections of a client made, the newest first.
func (c *Clients) sockets(client string) (paths []string) {
	entries, _ := os.ReadDir(c.Home.Clients())
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return !strings.HasPrefix(e.Name(), client+".") })
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return made(b).Compare(made(a)) })
	for _, e := range entries {
		paths = append(paths, filepath.Join(c.Home.Clients(), e.Name()))
	}
	return paths
}

// made is when a file was, the zero time if it is gone.
func made(e os.DirEntry) time.Time {
	info, err := e.Info()
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}
