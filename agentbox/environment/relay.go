package environment

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/vmm/guest/protocol"
)

// Backend returns the connection to the environment as it is now. It may wait for one until ctx
// ends. It is called from many goroutines, and for each channel anew, so that clients survive the
// replacement of a connection. Its error reaches the client in the refusal.
type Backend func(ctx context.Context) (*ssh.Client, error)

// Relay is an SSH server that passes every channel on to one backend connection, so that many local
// clients share it. Each client has a handshake of its own with the relay, at native speed, and the
// environment serves a single connection.
//
// It buffers nothing beyond the windows of flow control: a client that does not read stops its own
// command, and only that. Clients may run sessions and open TCP and unix connections inside. They
// may not make the environment call back (remote forwarding, X11, agent forwarding), which would
// give a box a way out that no policy sees. The host key and the client's key are made for the
// relay; the socket's directory and the client's key decide who may connect.
//
// The order of calls is NewRelay, Handle, Prepare, Serve. ServeConn may run beside Serve.
type Relay struct {
	backend Backend
	config  *ssh.ServerConfig
	log     *slog.Logger
	// spare is a session opened ahead of need; local are the handlers by type of channel.
	spare *spare
	local map[string]ChannelHandler
}

// ChannelHandler serves a channel that a client asked for. It returns when the channel is closed or
// ctx is done.
type ChannelHandler func(ctx context.Context, nch ssh.NewChannel)

// Handle makes the relay itself serve channels of a kind, by f. It is called before Serve.
func (r *Relay) Handle(kind string, f ChannelHandler) { r.local[kind] = f }

// NewRelay makes a relay that identifies itself with hostKey and admits the holder of clientKey
// under any user name. The name reaches the environment with every session (user@agentbox, see the
// package). Nothing is served before Serve or ServeConn.
func NewRelay(hostKey ssh.Signer, clientKey ssh.PublicKey, backend Backend, log *slog.Logger) *Relay {
	want := clientKey.Marshal()
	config := &ssh.ServerConfig{
		ServerVersion: "SSH-2.0-agentbox",
		PublicKeyCallback: func(_ ssh.ConnMetadata, got ssh.PublicKey) (*ssh.Permissions, error) {
			if bytes.Equal(got.Marshal(), want) {
				return nil, nil
			}
			return nil, errors.New("this key may not log in")
		},
	}
	config.AddHostKey(hostKey)
	return &Relay{backend: backend, config: config, log: log, spare: newSpare(), local: map[string]ChannelHandler{}}
}

// Prepare opens a session ahead of need, which makes the first command as fast as the following
// ones.
func (r *Relay) Prepare(ctx context.Context) {
	if client, err := r.backend(ctx); err == nil {
		r.spare.prepare(client)
	}
}

// Serve accepts clients until ctx is done (nil) or the listener fails. It owns the listener and
// waits for every client. A relay serves once.
func (r *Relay) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var clients sync.WaitGroup
	defer r.spare.drop()
	defer clients.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	defer l.Close()
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			clients.Go(func() { r.ServeConn(ctx, conn) })
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return agentbox.Errorf(agentbox.Internal, "relay at %s: %w", l.Addr(), err)
		default: // out of descriptors, most likely; clients that end return theirs
			r.log.Warn("relay cannot accept a client", "address", l.Addr().String(), "error", err)
			background.Sleep(ctx, 100*time.Millisecond)
		}
	}
}

// ServeConn serves one client and owns conn. It returns when the client has gone and its channels
// are closed, or ctx is done.
func (r *Relay) ServeConn(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	// A client that connects and says nothing must not keep a goroutine for ever.
	conn.SetDeadline(time.Now().Add(AnswerTimeout))
	client, channels, requests, err := ssh.NewServerConn(conn, r.config)
	if err != nil {
		r.log.Debug("relay refused a client", "error", err)
		return
	}
	conn.SetDeadline(time.Time{})
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { answerGlobal(requests) })
	for nch := range channels {
		work.Go(func() { r.channel(ctx, client.User(), nch) })
	}
	// The client has gone, and nobody waits for the environment's answers any more.
	cancel()
}

// answerGlobal answers keepalives and refuses all other requests, among them those of OpenSSH that
// would make the environment call back.
func answerGlobal(requests <-chan *ssh.Request) {
	for req := range requests {
		req.Reply(req.Type == "keepalive@openssh.com", nil)
	}
}

// channel serves one channel that a client asked for. The channel in the environment is opened
// first, so that the client sees its refusal, with the reason.
func (r *Relay) channel(ctx context.Context, user string, nch ssh.NewChannel) {
	if f := r.local[nch.ChannelType()]; f != nil {
		f(ctx, nch)
		return
	}
	switch nch.ChannelType() {
	case "session", "direct-tcpip", "direct-streamlocal@openssh.com":
	default:
		nch.Reject(ssh.UnknownChannelType, "the box does not offer "+nch.ChannelType())
		return
	}
	back, err := r.open(ctx, nch.ChannelType(), nch.ExtraData())
	if err != nil {
		reject(nch, err)
		return
	}
	front, requests, err := nch.Accept()
	if err != nil {
		back.abandon()
		return
	}
	b := &bridge{session: nch.ChannelType() == "session", front: end{front, requests}, back: back}
	if b.session {
		back.ch.SendRequest(protocol.UserRequest, false, ssh.Marshal(struct{ User string }{user}))
	}
	b.run(ctx)
}

// reject passes on a refusal of the environment as it is; other errors follow noBackend.
func reject(nch ssh.NewChannel, err error) {
	var refused *ssh.OpenChannelError
	if errors.As(err, &refused) {
		nch.Reject(refused.Reason, refused.Message)
		return
	}
	nch.Reject(ssh.ConnectionFailed, noBackend+err.Error())
}

// noBackend precedes a relay's reason for having no connection. Stock clients print it.
const noBackend = "agentbox: "

// open opens a channel of the environment. A connection that turns out to have ended gets one more
// try, since nothing was asked of the environment yet: the backend may have another.
func (r *Relay) open(ctx context.Context, kind string, extra []byte) (end, error) {
	client, err := r.backend(ctx)
	if err != nil {
		return end{}, err
	}
	back, err := r.openOn(ctx, client, kind, extra)
	var loss lossError
	if !errors.As(err, &loss) {
		return back, err
	}
	client.Close()
	<-Ended(client)
	if client, err = r.backend(ctx); err != nil {
		return end{}, err
	}
	return r.openOn(ctx, client, kind, extra)
}

func (r *Relay) openOn(ctx context.Context, client *ssh.Client, kind string, extra []byte) (end, error) {
	if kind == "session" {
		return r.spare.take(ctx, client)
	}
	ch, requests, err := OpenChannel(ctx, client, kind, extra)
	return end{ch, requests}, err
}
