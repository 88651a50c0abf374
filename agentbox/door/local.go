package door

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// Client returns a client that calls this door as the holder of a token would, without a network. The
// caller closes it.
func (d *Door) Client(grant api.Token) *api.Client {
	return api.NewClientOver("this door", func(ctx context.Context) (net.Conn, error) { return d.local.dial(ctx, grant) })
}

// GrantOf returns whose a request is that the door has passed on.
func GrantOf(r *http.Request) (api.Token, error) {
	grant, ok := r.Context().Value(grantKey{}).(api.Token)
	if !ok {
		return grant, agentbox.Errorf(agentbox.Unauthorized, "no token given")
	}
	return grant, nil
}

// serveLocal serves the clients of Client until Close.
func (d *Door) serveLocal() {
	d.inside = &http.Server{Handler: d, ConnContext: func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, grantKey{}, c.(grantConn).grant)
	}}
	d.serving.Go(func() { _ = d.inside.Serve(d.local) })
}

// Close ends what Client began.
func (d *Door) Close() {
	d.inside.Close()
	d.serving.Wait()
}

// grantConn is the door's end of a connection of a holder of a token.
type grantConn struct {
	net.Conn
	grant api.Token
}

// pipes is a listener in memory.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) dial(ctx context.Context, grant api.Token) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- grantConn{there, grant}:
		return here, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, io.EOF
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }
