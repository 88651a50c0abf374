package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"agentbox/policy"
)

// Deadlines of the box's HTTP connections. Bodies have none.
const (
	headTimeout = 30 * time.Second // from the beginning of a request to the end of its head
	idleBox     = 2 * time.Minute  // between two requests
)

// web serves the box's requests with one server of HTTP/1 and HTTP/2. The goroutines of streams
// pass it their connections and wait until these are over. wg has the server and its requests.
type web struct {
	g      *Gateway
	server *http.Server
	proxy  http.Handler
	// tls is shared by all decrypted connections; each adds its certificate.
	tls *tls.Config
	// incoming is the listener of server.
	incoming connListener
	wg       sync.WaitGroup
}

// newWeb starts the server; close ends it.
func newWeb(g *Gateway) *web {
	w := &web{g: g, incoming: connListener{g.ctx, make(chan net.Conn)}}
	w.proxy = newProxy(g)
	w.tls = &tls.Config{
		// Older versions are refused, as servers outside refuse them.
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		// A ticket would connect one name's session to another's certificate, and a box opens few
		// connections.
		SessionTicketsDisabled: true,
	}
	w.server = &http.Server{
		Handler:           w,
		ReadHeaderTimeout: headTimeout,
		IdleTimeout:       idleBox,
		MaxHeaderBytes:    maxHead,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, sessionKey{}, sessionOf(c))
		},
		ErrorLog: log.New(io.Discard, "", 0), // invalid requests are in the audit log
	}
	w.wg.Go(func() { _ = w.server.Serve(&w.incoming) })
	return w
}

// close ends every connection and returns when no request is served any more. The gateway's context
// has ended before.
func (w *web) close() {
	_ = w.server.Close()
	w.wg.Wait()
}

// session is a connection whose requests are served: the box's, or the one below TLS.
type session struct {
	net.Conn
	// stream is the connection of the box that it is.
	stream  *stream
	checked *checkedConn // nil for HTTP/2
	tls     bool
	over    chan struct{}
	once    sync.Once
}

// sessionKey is the context key of a request's session.
type sessionKey struct{}

func (s *session) Close() error {
	defer s.once.Do(func() { close(s.over) })
	return s.Conn.Close()
}

// sessionOf finds the session below the server's connection, which adds checks or TLS.
func sessionOf(c net.Conn) *session {
	if f, ok := c.(*checkedConn); ok {
		c = f.Conn
	}
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	s, _ := c.(*session)
	return s
}

// CloseWrite ends our direction.
func (s *session) CloseWrite() error { return closeWrite(s.Conn) }

// linger reads on for a moment, so that a client that is still sending can read its answer: closing
// at once would reset the connection.
func linger(c net.Conn) {
	const patience, most = 500 * time.Millisecond, 1 << 20
	_ = closeWrite(c)
	_ = c.SetReadDeadline(time.Now().Add(patience))
	_, _ = io.CopyN(io.Discard, c, most)
}

// serve answers the requests on a connection and returns when it is over.
func (w *web) serve(ctx context.Context, st *stream, c net.Conn) error {
	s := &session{Conn: c, stream: st, over: make(chan struct{})}
	return w.run(ctx, s, w.framed(s, s))
}

func (w *web) framed(s *session, c net.Conn) net.Conn {
	s.checked = newCheckedConn(c, func(err error, idle bool) {
		refusal := w.g.refuse(s.stream.requests(), "framing", err.Error())
		if idle {
			writeRefusal(c, refusal)
			linger(c)
		}
	})
	return s.checked
}

// open terminates the box's TLS in place of the server, and answers the requests inside.
//
// The certificate is for the name that the box looked up, or for the address. hello has compared it
// with the name in the ClientHello.
func (w *web) open(ctx context.Context, st *stream, h hello) error {
	s := &session{Conn: &replay{Conn: st.box, first: h.raw}, stream: st, tls: true, over: make(chan struct{})}
	cert, err := w.g.cfg.CA.Certificate(st.flow.Host())
	if err != nil {
		return err
	}
	config := w.tls.Clone()
	config.Certificates = []tls.Certificate{*cert}
	conn := tls.Server(s, config)
	limited, cancel := context.WithTimeout(ctx, helloTimeout)
	err = conn.HandshakeContext(limited)
	cancel()
	if err != nil {
		return w.g.refuse(st.flow, "handshake", fmt.Sprintf("TLS has to be opened for a rule or a secret, and the client did not complete the handshake (does it know this box's certificate authority?): %v", err))
	}
	// HTTP/2 frames requests in one way only, so it needs no check before net/http.
	if conn.ConnectionState().NegotiatedProtocol == "h2" {
		return w.run(ctx, s, conn)
	}
	return w.run(ctx, s, w.framed(s, conn))
}

// run passes a connection to the server and returns when it, or the gateway, is over.
func (w *web) run(ctx context.Context, s *session, c net.Conn) error {
	select {
	case w.incoming.conns <- c:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.incoming.ctx.Done():
		return net.ErrClosed
	}
	select {
	case <-s.over:
	case <-ctx.Done():
		_ = s.Close()
	}
	return nil
}

// usualPort is the port that an authority may omit.
func (s *session) defaultPort() string {
	if s.tls {
		return "443"
	}
	return "80"
}

// requests is the flow of a connection's requests, before one is seen.
func (st *stream) requests() policy.Flow {
	f := st.flow
	f.Proto = policy.HTTP
	return f
}

// connListener accepts the connections that it is passed, until the gateway ends.
type connListener struct {
	ctx   context.Context
	conns chan net.Conn
}

func (cl *connListener) Accept() (net.Conn, error) {
	select {
	case c := <-cl.conns:
		return c, nil
	case <-cl.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (cl *connListener) Close() error   { return nil }
func (cl *connListener) Addr() net.Addr { return &net.TCPAddr{} }
