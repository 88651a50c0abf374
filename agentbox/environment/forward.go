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
	"agentbox/agentbox/background"
)

// Forwarding is a TCP port of this host whose connections end in the environment. One goroutine
// accepts, and each connection has one that connects and joins; Close waits for all of them.
type Forwarding struct {
	listener net.Listener
	cancel   context.CancelFunc
	closed   chan struct{} // when the listener is
	work     sync.WaitGroup
}

// ForwardHooks observes the connections of a forwarding, from several goroutines. Either may be
// nil.
type ForwardHooks struct {
	OnOpen func() (closed func()) // a client has connected; closed is called when it has gone
	OnData func()                 // a piece has gone through
}

// Forward listens on the host address listen ("127.0.0.1:3000"; port 0 takes a free one) and
// connects every client to remote, an address inside the environment. It works until ctx ends or
// Close is called. remote's host may be empty, which is the environment's localhost. A connection
// that nobody answers there is reset, so that a client sees what it would see of a closed port.
// Every connection asks backend anew, so the forwarding survives the replacement of the connection
// to the environment. The error is Exists for a port that is taken, and Invalid for a remote that
// is no address.
func Forward(ctx context.Context, backend Backend, listen, remote string, watch ForwardHooks) (*Forwarding, error) {
	target, err := parseTarget(remote)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, listenError(listen, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	f := &Forwarding{listener: l, cancel: cancel, closed: make(chan struct{})}
	context.AfterFunc(ctx, func() {
		defer close(f.closed)
		l.Close()
	})
	f.work.Go(func() { f.accept(ctx, backend, target, watch) })
	return f, nil
}

// listenError explains why a port cannot be opened, and suggests another.
func listenError(listen string, err error) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return agentbox.Errorf(agentbox.Invalid, "cannot listen on %s: %w", listen, err)
	}
	taken := agentbox.Errorf(agentbox.Exists, "%s is taken on this machine: %w", listen, err)
	host, _, _ := net.SplitHostPort(listen)
	// The kernel knows a free port. Somebody may take it before the user does, so it is only a
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
	<-f.closed // accept may return while the listener is still being closed
	f.work.Wait()
	return nil
}

// accept serves clients until the listener is closed. Other errors, such as too few descriptors,
// are temporary; it waits before it goes on.
func (f *Forwarding) accept(ctx context.Context, backend Backend, target target, watch ForwardHooks) {
	defer f.cancel()
	for {
		conn, err := f.listener.Accept()
		switch {
		case err == nil:
			f.work.Go(func() { connect(ctx, backend, target, conn, watch) })
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return
		default:
			background.Sleep(ctx, 100*time.Millisecond)
		}
	}
}

// target is an address inside the environment, where its host is resolved. Its port is 1 to 65535.
type target struct {
	host string
	port uint32
}

// parseTarget reads host:port. The host may be empty.
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

// DialTCP connects to a port in the environment. ctx is for opening the connection only, which has no
// deadlines.
func DialTCP(ctx context.Context, client *ssh.Client, addr string) (net.Conn, error) {
	t, err := parseTarget(addr)
	if err != nil {
		return nil, err
	}
	ch, reqs, err := openTCP(ctx, client, t, "127.0.0.1", 0)
	if err != nil {
		return nil, err
	}
	go ssh.DiscardRequests(reqs) // ends with the channel
	return channelConn{ch}, nil
}

// channelConn is a channel as a connection.
type channelConn struct{ ssh.Channel }

func (channelConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (channelConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (channelConn) SetDeadline(time.Time) error      { return errors.ErrUnsupported }
func (channelConn) SetReadDeadline(time.Time) error  { return errors.ErrUnsupported }
func (channelConn) SetWriteDeadline(time.Time) error { return errors.ErrUnsupported }

func connect(ctx context.Context, backend Backend, t target, conn net.Conn, watch ForwardHooks) {
	defer conn.Close()
	if watch.OnOpen != nil {
		defer watch.OnOpen()()
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
	join(ctx, conn, ch, reqs, watch.OnData)
}

// origin is where a client comes from, as direct-tcpip reports it; a client of a unix socket comes
// from this machine.
func origin(conn net.Conn) (string, uint32) {
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		return a.IP.String(), uint32(a.Port)
	}
	return "127.0.0.1", 0
}

// reset makes the close of a connection look like a refusal, not like an empty answer.
func reset(conn net.Conn) {
	if t, ok := conn.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
}

// join copies both ways until both directions have ended, either end is gone, or ctx is done. If
// both ended naturally the host's side gets an end of file, otherwise a reset: half a message must
// not look like a whole one. passed may be nil.
func join(ctx context.Context, conn net.Conn, ch ssh.Channel, reqs <-chan *ssh.Request, passed func()) {
	closed := make(chan struct{})
	go func() { ssh.DiscardRequests(reqs); close(closed) }()
	in, out := make(chan error, 1), make(chan error, 1)
	// Both copies end when the environment answers the close below, or with its connection. Nobody
	// waits for a silent one.
	go func() {
		_, err := pump(notifying{ch, passed}, conn)
		ch.CloseWrite()
		in <- err
	}()
	go func() {
		_, err := pump(notifying{conn, passed}, ch)
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

// notifying is a writer that calls passed after each write.
type notifying struct {
	io.Writer
	passed func()
}

// Write calls passed even if the write fails.
func (nw notifying) Write(p []byte) (int, error) {
	n, err := nw.Writer.Write(p)
	if nw.passed != nil {
		nw.passed()
	}
	return n, err
}

// naturalEnd waits for the end of a joined pair, and tells whether everything that was sent has
// arrived. in and out deliver the result of each direction's copy, once. closed is closed when the
// environment has closed the channel.
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

// isClosed tells whether a channel is closed that nothing is sent on.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
