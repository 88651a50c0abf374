package reach

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/home"
)

// Host is what this home knows of another machine. Nothing in it is secret: stock ssh has the keys.
type Host struct {
	Name   string    `json:"name"`
	Target string    `json:"target"` // ssh://[USER@]MACHINE[:PORT], or lima://INSTANCE
	Added  time.Time `json:"added"`
	// Program is the path there of the program that was brought there, and Build what it calls itself
	// there. Ours is the build here that it is a copy of.
	Program string `json:"program"`
	Build   string `json:"build"`
	Ours    string `json:"ours"`
	Home    string `json:"home"` // the home there
	// Client is what boxes there call this home, of whose secrets they use some; "" while they use none.
	Client string `json:"client,omitempty"`
}

// There is the daemon of a Host. All connections to it are channels of one SSH connection, which
// stock ssh keeps for a while (see link.ssh), and end with that.
type There struct {
	Host
	link link
}

// There returns the daemon of a host by its name.
func (h Here) There(name string) (There, error) {
	var host Host
	err := durable.ReadJSON(h.home.Host(name), &host)
	if err == nil && host.Name == "" {
		return There{}, agentbox.Errorf(agentbox.NotFound, "there is no host %q", name).WithHint("agentbox host ls lists them, and agentbox host add %s ssh://USER@MACHINE adds one", name)
	}
	return There{host, h.linkTo(host)}, err
}

// Hosts returns all hosts, by name.
func (h Here) Hosts() (all []Host, err error) {
	files, err := filepath.Glob(h.home.Host("*"))
	for _, f := range files {
		var host Host
		if readErr := durable.ReadJSON(f, &host); readErr != nil {
			return all, readErr
		}
		all = append(all, host)
	}
	return all, err
}

// Forget removes a host and closes its connection. Nothing changes there.
func (h Here) Forget(ctx context.Context, name string) error {
	t, err := h.There(name)
	if err != nil {
		return err
	}
	t.link.close(ctx, t.Host)
	return os.Remove(h.home.Host(name))
}

// Connect returns a client of the daemon there. Unlike Here, it replaces no daemon of another build:
// whoever works there may be using it.
func (t There) Connect(ctx context.Context) (*api.Client, error) {
	if t.Ours != t.link.here.build {
		return nil, t.otherBuild("was set up by " + t.Ours + ", and this is " + t.link.here.build)
	}
	client := api.NewClient(t.link.socket)
	status, err := api.Call(ctx, client, api.Status, api.None{}, nil)
	opened := api.IsUnreachable(err)
	if opened {
		if err = t.link.open(ctx, t.Host); err == nil {
			status, err = api.Call(ctx, client, api.Status, api.None{}, nil)
		}
	}
	switch {
	case api.IsUnreachable(err):
		return nil, agentbox.Errorf(agentbox.Unavailable, "the connection to %s was lost: %w", t.Name, err).WithHint("run the command again: what runs there goes on")
	case err != nil:
		return nil, err
	case status.Version != t.Build:
		return nil, t.otherBuild("runs " + status.Version + ", and not the " + t.Build + " that was brought there")
	}
	if t.Client != "" {
		_ = t.lend(ctx, opened) // a box that misses a secret says so, and most commands need none
	}
	return client, nil
}

func (t There) otherBuild(what string) error {
	return agentbox.Errorf(agentbox.Conflict, "host %s %s", t.Name, what).
		WithHint("agentbox host add %s %s brings this build there; boxes keep running", t.Name, t.Target)
}

// Status asks the daemon there, and starts it.
func (t There) Status(ctx context.Context) (api.DaemonStatus, error) {
	client, err := t.Connect(ctx)
	if err != nil {
		return api.DaemonStatus{}, err
	}
	defer client.Close()
	return api.Call(ctx, client, api.Status, api.None{}, nil)
}

// Stop ends the daemon there. Boxes keep running.
func (t There) Stop(ctx context.Context) error {
	client, err := t.Connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = api.Call(ctx, client, api.Shutdown, api.None{}, nil)
	return err
}

// Log writes the log of the daemon there.
func (t There) Log(ctx context.Context, req api.LogRequest, w io.Writer) error {
	client, err := t.Connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	return api.Read(ctx, client, api.DaemonLog, req, w)
}

// Box connects to the SSH server of a running box, through the daemon there.
func (t There) Box(ctx context.Context, id agentbox.BoxID) (net.Conn, error) {
	client := api.NewClient(t.link.socket)
	defer client.Close()
	return api.DialTunnel(ctx, client, api.BoxSSH, api.BoxRef{Box: id.String()})
}

// Forward makes a port of the machine's loopback there arrive at the same port here, or at a free one
// if that is in use, for as long as the connection is kept. It returns the port here.
func (t There) Forward(ctx context.Context, port int) (int, error) {
	return t.link.forward(ctx, t.Host, port)
}

// save writes the record of a host.
func (h Here) save(host Host) error {
	if err := os.MkdirAll(filepath.Dir(h.home.Host(host.Name)), 0o700); err != nil {
		return err
	}
	return durable.WriteJSON(h.home.Host(host.Name), host, 0o600)
}

// socketOf is the socket of the daemon of a home there.
func socketOf(dir string) string { return home.Home{Dir: dir}.Socket() }
