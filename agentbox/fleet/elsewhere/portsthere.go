package elsewhere

import (
	"cmp"
	"context"
	"errors"
	"net"
	"strconv"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/fleet"
)

// portThere is a port of a box of another machine.
type portThere struct {
	box  fleet.BoxAt
	port int
}

// maxPortsThere bounds the forwardings to boxes of other machines.
const maxPortsThere = 100

// OpenPort is api.OpenPort: for a box here, or else one elsewhere, for as long as one connection to it
// lasts.
func (b *Boxes) OpenPort(ctx context.Context, req api.PortRequest, progress agentbox.Progress) (agentbox.Port, error) {
	p, err := b.Here.Ports.Open(ctx, req, progress)
	at, ok := b.of(req.Box)
	if agentbox.CodeOf(err) != agentbox.NotFound || !ok {
		return p, err
	}
	client, err := b.openClient(ctx, at)
	if err != nil {
		return p, err
	}
	listen := func(port int) (*environment.Forwarding, error) {
		backend := func(context.Context) (*ssh.Client, error) { return client, nil }
		return environment.Forward(b.Ctx, backend, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), net.JoinHostPort("localhost", strconv.Itoa(req.Port)), environment.ForwardHooks{})
	}
	f, err := listen(cmp.Or(req.Host, req.Port))
	if err != nil && req.Host == 0 {
		f, err = listen(0)
	}
	if err == nil {
		err = b.keep(portThere{at.BoxAt, req.Port}, forwarding{f, client})
	}
	if err != nil {
		return p, errors.Join(err, client.Close())
	}
	return agentbox.Port{Box: req.Port, Host: f.Addr()}, nil
}

// forwarding is a port of the loopback here, and the connection by which it leads elsewhere.
type forwarding struct {
	*environment.Forwarding
	client *ssh.Client
}

func (f forwarding) close() error { return errors.Join(f.Close(), f.client.Close()) }

// keep keeps a forwarding in the place of an earlier one of its port, until its connection ends.
func (b *Boxes) keep(of portThere, f forwarding) error {
	b.mu.Lock()
	before, again := b.ports[of]
	full := !again && len(b.ports) >= maxPortsThere
	if b.ports == nil {
		b.ports = map[portThere]forwarding{}
	}
	if !full {
		b.ports[of] = f
	}
	b.mu.Unlock()
	if full {
		return errors.Join(f.Close(), agentbox.Errorf(agentbox.Busy, "%d ports of other machines are forwarded", maxPortsThere).WithHint("agentbox ports --close ends a forwarding"))
	}
	go func() {
		_ = f.client.Wait()
		_, _ = b.drop(of, f.client)
	}()
	if again {
		return before.close()
	}
	return nil
}

// drop ends the forwarding of a port, if it is by client, or any with nil. It tells whether there was one.
func (b *Boxes) drop(of portThere, client *ssh.Client) (was bool, err error) {
	b.mu.Lock()
	f, was := b.ports[of]
	if was = was && (client == nil || f.client == client); was {
		delete(b.ports, of)
	}
	b.mu.Unlock()
	if was {
		err = f.close()
	}
	return was, err
}

// ClosePort is api.ClosePort, as openPort is api.OpenPort.
func (b *Boxes) ClosePort(ctx context.Context, req api.PortRequest, progress agentbox.Progress) (api.None, error) {
	none, err := b.Here.Ports.Close(ctx, req, progress)
	at, ok := b.of(req.Box)
	if agentbox.CodeOf(err) != agentbox.NotFound || !ok {
		return none, err
	}
	if was, _ := b.drop(portThere{at.BoxAt, req.Port}, nil); !was { // its connection may have ended meanwhile
		return none, agentbox.Errorf(agentbox.NotFound, "port %d is not forwarded", req.Port)
	}
	return none, nil
}

// openClient opens an SSH connection into a box elsewhere.
func (b *Boxes) openClient(ctx context.Context, at BoxThere) (*ssh.Client, error) {
	c, _, err := b.LogIn(ctx, at)
	if err != nil {
		return nil, err
	}
	login, err := environment.NewLogin(c.User, []byte(c.Key), []byte(c.HostKey))
	if err != nil {
		return nil, err
	}
	conn, err := b.SSH(ctx, at.BoxAt)
	if err != nil {
		return nil, err
	}
	return environment.NewClient(ctx, conn, login)
}
