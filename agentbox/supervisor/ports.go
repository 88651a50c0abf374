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

// ports are the TCP ports of the box that answer on the host's loopback. mu also orders opening and
// closing, so that a port is listened on once.
type ports struct {
	ctx     context.Context // of the supervisor: forwardings end with it
	backend environment.Backend
	watch   environment.Watch

	mu   sync.Mutex
	byID map[int]*environment.Forwarding // by port in the box
}

// newPorts has none open. backend makes connections into the guest; watch is told of those that are
// open and of what passes.
func newPorts(ctx context.Context, backend environment.Backend, watch environment.Watch) *ports {
	return &ports{ctx: ctx, backend: backend, watch: watch, byID: map[int]*environment.Forwarding{}}
}

// open forwards port of the box. host 0 takes the same number when it is free, else any. One that
// is forwarded already stays where it is, unless another port of the host is asked for: that takes
// its place.
func (p *ports) open(port, host int) (agentbox.Port, error) {
	if host == 0 {
		return p.openNear(port, port)
	}
	return p.forward(port, host, false)
}

// openNear forwards port of the box to host when that is free, else to any port of the host.
func (p *ports) openNear(port, host int) (agentbox.Port, error) { return p.forward(port, host, true) }

// forward is open and openNear; orAny says whether a host's port that is taken, or not for users,
// is replaced by any.
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

// loopback is where forwarded ports listen: a box is nobody else's on the network.
func loopback(host int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(host)) }

// listen begins to forward. The guest is asked for a connection to localhost only when a client
// comes.
func (p *ports) listen(host, port int) (*environment.Forwarding, error) {
	remote := net.JoinHostPort("localhost", strconv.Itoa(port))
	return environment.Forward(p.ctx, p.backend, loopback(host), remote, p.watch)
}

// close ends a forwarding; connections through it end, too. NotFound where there is none.
func (p *ports) close(port int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, ok := p.byID[port]
	if !ok {
		return agentbox.Errorf(agentbox.NotFound, "port %d is not forwarded", port)
	}
	delete(p.byID, port)
	return f.Close()
}

// closeAll ends them all, when the machine has ended.
func (p *ports) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for port, f := range p.byID {
		_ = f.Close()
		delete(p.byID, port)
	}
}

// list is what is forwarded now, by port of the box.
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
