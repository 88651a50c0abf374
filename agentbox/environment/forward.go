package environment

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
)

// Forwarding is a TCP port of this host whose connections end in the environment. One goroutine
// accepts and each connection has one that connects and joins; Close waits for all of them.
type Forwarding struct {
	listener net.Listener
	cancel   context.CancelFunc
	work     sync.WaitGroup
}

// Watch is told of the connections of a forwarding, from several goroutines. Either may be nil.
type Watch struct {
	Opened func() (closed func()) // a client has connected; closed is called when it has gone
	Passed func()                 // a piece has gone through
}

// Forward listens on the host address listen ("127.0.0.1:3000"; port 0 takes a free one) and
// connects every client to remote, an address inside the environment. It works until ctx is done or
// Close is called. A port that is taken is an error of code Exists. remote's host may be empty,
// which is the environment's localhost; a connection that nobody answers there is reset, so that a
// client sees what it would see of a closed port. Every connection asks backend anew, so the
// forwarding lives on when the connection to the environment is replaced. A remote that is no
// address is an error of code Invalid.
func Forward(ctx context.Context, backend Backend, listen, remote string, watch Watch) (*Forwarding, error) {
	target, err := parseTarget(remote)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, listenError(listen, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	f := &Forwarding{listener: l, cancel: cancel}
	context.AfterFunc(ctx, func() { l.Close() })
	f.work.Go(func() { f.accept(ctx, backend, target, watch) })
	return f, nil
}

// listenError says why a port cannot be had, and suggests another.
func listenError(listen string, err error) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return agentbox.Errorf(agentbox.Invalid, "cannot listen on %s: %w", listen, err)
	}
	taken := agentbox.Errorf(agentbox.Exists, "%s is taken on this machine: %w", listen, err)
	host, _, _ := net.SplitHostPort(listen)
	// The kernel knows a free one; somebody may take it before the user does, so it is only a
	// suggestion.
	if l, err := net.Listen("tcp", net.JoinHostPort(host, "0")); err == nil {
		defer l.Close()
		taken = taken.WithHint("%s is free", l.Addr())
	}
	return taken
}

// Addr is where the forwarding listens.
func (f *Forwarding) Addr() string { return f.listener.Addr().String() }

// Close stops listening, ends the connections, and waits for both.
func (f *Forwarding) Close() error {
	f.cancel()
	f.work.Wait()
	return nil
}

// accept serves clients until the listener is closed. An error of accept that is not the end, such
// as too few descriptors, passes; it is not asked again at once.
func (f *Forwarding) accept(ctx context.Context, backend Backend, target target, watch Watch) {
	defer f.cancel()
	for {
		conn, err := f.listener.Accept()
		switch {
		case err == nil:
			f.work.Go(func() { connect(ctx, backend, target, conn, watch) })
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return
		default:
			sleep(ctx, 100*time.Millisecond)
		}
	}
}

// target is an address inside the environment. Its host is resolved there, and its port is 1 to
// 65535.
type target struct {
	host string
	port uint32
}

// parseTarget reads host:port, with a host that may be empty.
func parseTarget(addr string) (target, error) {
	host, p, err := net.SplitHostPort(addr)
	port, perr := strconv.ParseUint(p, 10, 16)
	if err != nil || perr != nil || port == 0 {
		return target{}, agentbox.Errorf(agentbox.Invalid, "%q is not an address (host:port)", addr)
	}
	if host == "" {
		host = "localhost"
	}
	return target{host, uint32(port)}, nil
}

// openTCP opens a connection inside the environment: RFC 4254, 7.2.
func openTCP(ctx context.Context, client *ssh.Client, t target, fromHost string, fromPort uint32) (ssh.Channel, <-chan *ssh.Request, error) {
	ch, reqs, err := OpenChannel(ctx, client, "direct-tcpip", ssh.Marshal(struct {
		Host     string
		Port     uint32
		FromHost string
		FromPort uint32
	}{t.host, t.port, fromHost, fromPort}))
	var refused *ssh.OpenChannelError
	if errors.As(err, &refused) {
		err = agentbox.Errorf(agentbox.Unavailable, "nothing answers on port %d of the box: %s", t.port, refused.Message)
	}
	return ch, reqs, err
}

// connect serves one client of a forwarding and owns conn.
func connect(ctx context.Context, backend Backend, t target, conn net.Conn, watch Watch) {
	defer conn.Close()
	if watch.Opened != nil {
		defer watch.Opened()()
	}
	client, err := backend(ctx)
	if err != nil {
		reset(conn)
		return
	}
	fromHost, fromPort := origin(conn)
	ch, reqs, err := openTCP(ctx, client, t, fromHost, fromPort)
	if err != nil {
		reset(conn)
		return
	}
	join(ctx, conn, ch, reqs, watch.Passed)
}

// origin is where a client comes from, as direct-tcpip tells it; of a unix socket that is this
// machine.
func origin(conn net.Conn) (string, uint32) {
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		return a.IP.String(), uint32(a.Port)
	}
	return "127.0.0.1", 0
}

// reset ends a connection as a refused one looks, not as an empty answer.
func reset(conn net.Conn) {
	if t, ok := conn.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
}

// join copies both ways until both directions have ended, either end is gone, or ctx is done. Where
// the two ended naturally the host's side gets an end of file, else a reset: half a message must
// not look like a whole one. passed may be nil.
func join(ctx context.Context, conn net.Conn, ch ssh.Channel, reqs <-chan *ssh.Request, passed func()) {
	closed := make(chan struct{})
	go func() { ssh.DiscardRequests(reqs); close(closed) }()
	in, out := make(chan error, 1), make(chan error, 1)
	// Both copies end when the environment answers the close below, or with its connection; a
	// silent one is not waited for.
	go func() {
		_, err := pump(told{ch, passed}, conn)
		ch.CloseWrite()
		in <- err
	}()
	go func() {
		_, err := pump(told{conn, passed}, ch)
		if c, ok := conn.(interface{ CloseWrite() error }); ok {
			c.CloseWrite()
		}
		out <- err
	}()
	if !naturalEnd(ctx, in, out, closed) {
		reset(conn)
	}
	ch.Close()
	conn.Close()
}

// told is a writer that says so after each piece.
type told struct {
	io.Writer
	passed func()
}

// Write tells of each piece, also of one that could not be written.
func (t told) Write(p []byte) (int, error) {
	n, err := t.Writer.Write(p)
	if t.passed != nil {
		t.passed()
	}
	return n, err
}

// naturalEnd waits for the end of a joined pair and tells whether all that was sent has arrived. in
// and out bring the result of each direction's copy, once. closed is closed when the environment
// has closed the channel.
func naturalEnd(ctx context.Context, in, out <-chan error, closed <-chan struct{}) bool {
	for in != nil || out != nil {
		var gone <-chan struct{} // the other end takes no more, and all it sent has been read
		if out == nil {
			gone = closed
		}
		select {
		case err := <-out:
			if err != nil {
				return false
			}
			out = nil
		case err := <-in:
			if err != nil && !isClosed(closed) {
				return false
			}
			in = nil
		case <-gone:
			return true
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// isClosed looks at a channel that is only ever closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
