package supervisor

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"agentbox/agentbox/durable"
	"agentbox/agentbox/home"
	"agentbox/vmm/guest"
	"agentbox/vmm/guest/protocol"
	"agentbox/vmm/runqueue"
)

// link is the connection to the guest agent. Its keys live as long as the supervisor: one lease of
// one machine; localKey, which never reaches the guest, as long as the box. When the guest hangs
// up, the next use greets it anew.
//
// greeting is a lock that is held while the guest is greeted, which may take minutes, so that
// of several callers one greets it and the others get its connection: there is one stream, so there
// cannot be two connections. It is a channel, so that each caller waits for it no longer than its
// own context allows. mu guards current for a moment, and is taken second: a caller that only asks
// whether there is a connection waits for no guest.
type link struct {
	machine  guest.Machine
	hostname string
	hostRaw  []byte // hostKey, as a Hello has it
	hostKey  ssh.Signer
	localKey ssh.Signer
	log      *slog.Logger

	greeting chan struct{}
	last     *guest.Client // current, or the one before; guarded by greeting

	mu      sync.Mutex
	current *guest.Client
}

// newLink makes the keys of a life and writes the host key where clients look for it. The guest
// cannot be reached before.
func newLink(machine guest.Machine, hostname string, names home.Box, log *slog.Logger) (*link, error) {
	// A process that uses ed25519 computes a table first, for a millisecond; that of P-256 is in the program.
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	l := &link{machine: machine, hostname: hostname, log: log, greeting: make(chan struct{}, 1)}
	if l.hostRaw, err = key.Bytes(); err != nil {
		return nil, err
	}
	if l.hostKey, err = ssh.NewSignerFromKey(key); err != nil {
		return nil, err
	}
	if l.localKey, err = localKey(names); err != nil {
		return nil, err
	}
	line := knownhosts.Line([]string{HostAlias}, l.hostKey.PublicKey()) + "\n"
	return l, durable.Replace(names.KnownHosts(), []byte(line), 0o600)
}

// HostAlias is the name under which the host key of every box is known: each box has a known_hosts
// file of its own. cli/ssh.go gives the alias to stock ssh.
const HostAlias = "agentbox"

// lock takes the lock that greeting is. Its error is ctx's.
func (l *link) lock(ctx context.Context) error {
	select {
	case l.greeting <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *link) unlock() { <-l.greeting }

// greetAgainTimeout bounds how long a guest that was connected before may take to answer again. It
// does not boot, and a guest that hangs should be known soon.
const greetAgainTimeout = time.Minute

func (l *link) client(ctx context.Context) (*guest.Client, error) {
	if err := l.lock(ctx); err != nil {
		return nil, err
	}
	defer l.unlock()
	if c := l.liveConnection(); c != nil {
		return c, nil
	}
	ctx, cancel := runqueue.WithTimeout(ctx, greetAgainTimeout, l.machine.PIDs)
	defer cancel()
	return l.greet(ctx, nil)
}

// greetFirst begins a life: it greets the guest for the first time. The guest then does what attach
// asks for, if it is not nil.
func (l *link) greetFirst(ctx context.Context, attach *protocol.AttachRequest) error {
	var request json.RawMessage
	if attach != nil {
		var err error
		if request, err = json.Marshal(attach); err != nil {
			return err
		}
	}
	if err := l.lock(ctx); err != nil {
		return err
	}
	defer l.unlock()
	_, err := l.greet(ctx, request)
	return err
}

// greet greets the guest, which ends any earlier connection. The caller holds greeting.
func (l *link) greet(ctx context.Context, attach json.RawMessage) (*guest.Client, error) {
	hello := guest.NewHello(l.hostname)
	hello.HostKey, hello.Attach = l.hostRaw, attach
	if l.last != nil {
		// Otherwise a user that notices its end late would end its successor, on the same stream.
		l.last.Close()
	}
	c, err := guest.Greet(ctx, l.machine, hello)
	if err != nil {
		return nil, fmt.Errorf("greet the guest: %w", err)
	}
	l.last = c
	l.mu.Lock()
	l.current = c
	l.mu.Unlock()
	go l.clearOnClose(c)
	return c, nil
}

func (l *link) clearOnClose(c *guest.Client) {
	err := c.SSH().Wait()
	l.log.Info("guest connection ended", "error", err)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == c {
		l.current = nil
	}
}

// ask has the guest do what may be done twice: once more, over a new connection, if this one ends before
// the answer.
func (l *link) ask(ctx context.Context, do func(*guest.Client, context.Context) error) error {
	c, err := l.client(ctx)
	if err != nil {
		return err
	}
	if err = do(c, ctx); err == nil || !c.Lost() || ctx.Err() != nil {
		return err
	}
	l.log.Warn("the guest is asked again", "error", err)
	if c, err = l.client(ctx); err == nil {
		err = do(c, ctx)
	}
	return err
}

// ssh is client for callers that need the SSH connection alone.
func (l *link) ssh(ctx context.Context) (*ssh.Client, error) {
	c, err := l.client(ctx)
	if err != nil {
		return nil, err
	}
	return c.SSH(), nil
}

// liveConnection is the connection, or nil if there is none.
func (l *link) liveConnection() *guest.Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current != nil && l.current.Lost() {
		return nil
	}
	return l.current
}

// kernel is the kernel release that the guest reports, "" without a connection.
func (l *link) kernel() string {
	c := l.liveConnection()
	if c == nil {
		return ""
	}
	return c.Kernel()
}
