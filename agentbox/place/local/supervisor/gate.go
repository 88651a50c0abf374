package supervisor

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync/atomic"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/policy"
	"agentbox/policy/gateway"
	"agentbox/vmm/netstack"
)

// gate is where the box's network meets its policy: the network stack asks it, the gateway answers,
// and the limits of the box are enforced on the way. It implements netstack.Handler, so its methods
// are called from many goroutines.
type gate struct {
	gateway    *gateway.Gateway
	meter      *meter
	accounting *accounting
	open       atomic.Int64 // flows under way
}

var _ netstack.Handler = (*gate)(nil)

// newGate makes the gate of a box that trusts ca. It follows the guard's policy.
func newGate(ca *gateway.CA, g *guard, m *meter, b *accounting, tools dialTools, log *slog.Logger) *gate {
	usage := func(model string, t agentbox.Tokens) {
		if err := b.tokens(model, t); err != nil {
			log.Warn("cannot record what a model has used", "error", err)
		}
	}
	gw := gateway.New(gateway.Config{Policy: denyAll(), Values: g.resolver, CA: ca, Audit: g.record, Usage: usage,
		Proxy: gateway.ProxyFromEnvironment(), Tools: tools})
	g.subscribe(gw.SetPolicy)
	return &gate{gateway: gw, meter: m, accounting: b}
}

// dialTools connects to the daemon's tool servers for one box.
type dialTools = func(context.Context) (net.Conn, error)

// toolsOf says whose connection it is before anything of the box's, so that no box can speak for
// another one. The daemon may be away for a moment.
func toolsOf(h home.Home, box agentbox.BoxID) dialTools {
	return func(ctx context.Context) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", h.ToolsSocket())
		if err != nil {
			return nil, err
		}
		if _, err := io.WriteString(c, box.String()+"\n"); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return c, nil
	}
}

// close ends every flow and returns when all are recorded.
func (g *gate) close() { g.gateway.Close() }

// Lookup decides about a DNS question.
func (g *gate) Lookup(_ context.Context, q netstack.Question) error {
	return g.gateway.Lookup(q.Name, q.Type)
}

// errLimit ends a flow at a limit of bytes or connections. The audit log names the limit.
var errLimit = errors.New("the box has reached a limit of its network")

// Accept decides about a flow at its first packet. Limits come first: they hold whatever the policy
// says.
func (g *gate) Accept(_ context.Context, d netstack.Destination) error {
	if !g.meter.mayConnect(int(g.open.Load())) || !g.meter.addBytes(0) {
		return errLimit
	}
	return g.gateway.Accept(policyFlow(d))
}

// addFlow counts a flow in. It fails at the limit, too: any number of flows may have been accepted
// before the first of them was counted. leave counts it out, also after an error.
func (g *gate) addFlow() (leave func(), err error) {
	if !g.meter.mayConnect(int(g.open.Add(1)) - 1) {
		err = errLimit
	}
	return func() { g.open.Add(-1) }, err
}

// Stream carries a TCP connection. It returns when the connection has ended.
func (g *gate) Stream(ctx context.Context, d netstack.Destination, c netstack.Conn) error {
	leave, err := g.addFlow()
	defer leave()
	if err != nil {
		return err
	}
	return g.gateway.Stream(ctx, policyFlow(d), meteredStream{metered{c, g.meter, g.accounting}, c})
}

// Packets carries the datagrams of a UDP flow.
func (g *gate) Packets(ctx context.Context, d netstack.Destination, c net.Conn) error {
	leave, err := g.addFlow()
	defer leave()
	if err != nil {
		return err
	}
	return g.gateway.Packets(ctx, policyFlow(d), metered{c, g.meter, g.accounting})
}

// Attempt records what the network stack refused on its own.
func (g *gate) Attempt(a netstack.Attempt) { g.gateway.Attempt(string(a.Kind), a.Detail, a.Count) }

// policyFlow translates a destination into the policy's terms. The address behind a name is a
// placeholder and means nothing.
func policyFlow(d netstack.Destination) policy.Flow {
	f := policy.Flow{Proto: policy.Proto(d.Proto), Name: d.Name, Port: d.Addr.Port()}
	if d.Name == "" {
		f.Addr = d.Addr.Addr().Unmap()
	}
	return f
}

// metered counts the bytes of a connection, and ends it at the limit. Reading from it is reading
// what the box sent.
type metered struct {
	net.Conn
	m *meter
	b *accounting
}

// Read implements net.Conn. It counts what the box has sent.
func (m metered) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	m.b.sent(n)
	if !m.m.addBytes(n) {
		return 0, errLimit
	}
	return n, err
}

// Write implements net.Conn. It counts what the box receives, and passes on nothing beyond the
// limit.
func (m metered) Write(p []byte) (int, error) {
	if !m.m.addBytes(len(p)) {
		return 0, errLimit
	}
	n, err := m.Conn.Write(p)
	m.b.received(n)
	return n, err
}

// meteredStream is metered with half-close.
type meteredStream struct {
	metered
	box netstack.Conn
}

// CloseWrite ends the direction to the box, as a server does that has sent everything; the box may
// still send.
func (m meteredStream) CloseWrite() error { return m.box.CloseWrite() }
