package supervisor

import (
	"context"
	"errors"
	"net"
	"sort"
	"strconv"
	"sync"
	"syscall"

	"agentbox/agentbox"
	"agentbox/agentbox/environment"
)

// ports are the TCP ports of the box that are forwarded from the host's loopback. mu also
// serializes opening and closing, so that no port is opened twice.
type ports struct {
	ctx     context.Context // of the supervisor: forwardings end with it
	backend environment.Backend
	watch   environment.ForwardHooks

	mu   sync.Mutex
	byID map[int]*environment.Forwarding // by port in the box
}

// newPorts has none open. backend connects to the guest; watch observes connections and their data.
func newPorts(ctx context.Context, backend environment.Backend, watch environment.ForwardHooks) *ports {
	return &ports{ctx: ctx, backend: backend, watch: watch, byID: map[int]*environment.Forwarding{}}
}

// open forwards a port of the box. With host 0 it takes the same number of the host if that is
// free, and any other if not. A port that is forwarded already stays where it is, unless another
// port of the host is asked for.
func (p *ports) open(port, host int) (agentbox.Port, error) {
	if host == 0 {
		return p.openNear(port, port)
	}
	return p.forward(port, host, false)
}

// openNear forwards a port of the box to host if that is free, and to any port of the host if not.
func (p *ports) openNear(port, host int) (agentbox.Port, error) { return p.forward(port, host, true) }

// forward is open and openNear. orAny tells whether any port of the host will do where host is
// taken or reserved for root.
func (p *ports) forward(port, host int, orAny bool) (agentbox.Port, error) {
	if port < 1 || port > 65535 || host < 0 || host > 65535 {
		return agentbox.Port{}, agentbox.Errorf(agentbox.Invalid, "port %d is not between 1 and 65535", port)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before, moves := p.byID[port]
	if moves && (orAny || before.Addr() == loopback(host)) {
		return agentbox.Port{Box: port, Host: before.Addr()}, nil
	}
	f, err := p.listen(host, port)
	if err != nil && orAny && (errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EACCES)) {
		f, err = p.listen(0, port)
	}
	if err != nil {
		return agentbox.Port{}, err
	}
	p.byID[port] = f
	if moves { // to the port of the host that was asked for
		err = before.Close()
	}
	return agentbox.Port{Box: port, Host: f.Addr()}, err
}

// loopback is where forwarded ports listen: nobody else on the network may reach a box.
func loopback(host int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(host)) }

// listen starts to forward. The guest is asked only when a client connects, for localhost.
func (p *ports) listen(host, port int) (*environment.Forwarding, error) {
	remote := net.JoinHostPort("localhost", strconv.Itoa(port))
	return environment.Forward(p.ctx, p.backend, loopback(host), remote, p.watch)
}

// close ends a forwarding with its connections. The error is NotFound if there is none.
func (p *ports) close(port int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, ok := p.byID[port]
	if !ok {
		return agentbox.Errorf(agentbox.NotFound, "port %d is not forwarded", port).WithHint("agentbox ports lists the forwarded ports")
	}
	delete(p.byID, port)
	return f.Close()
}

// closeAll ends all forwardings, when the machine has ended.
func (p *ports) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for port, f := range p.byID {
		_ = f.Close()
		delete(p.byID, port)
	}
}

// list returns the forwarded ports, sorted by port of the box.
func (p *ports) list() []agentbox.Port {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []agentbox.Port
	for port, f := range p.byID {
		out = append(out, agentbox.Port{Box: port, Host: f.Addr()})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Box < out[j].Box })
	return out
}
