package guest

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/agentbox/bounded"
	"agentbox/vmm/guest/protocol"
	"agentbox/vmm/runqueue"
)

// BootTimeout bounds Greet: long enough for a cold boot under emulation, which takes 6 seconds.
// As with every time that a guest is given, it stands still while the machine waits for a processor.
const BootTimeout = 3 * time.Minute

// UserName is the login of the host: the box's user, whatever its name is in the image.
const UserName = "agentbox"

// Machine is what a guest runs in, a vmm.Machine: its stream, and its processes on the host.
type Machine interface {
	Stream() net.Conn
	PIDs() []int
}

// Greet begins a life of the guest in a machine with hello and logs in. The host needs no key,
// since only it can write to the machine's stream. What the stream still holds of an earlier life is dropped,
// and the Client of that life must not be used any more. Closing the Client does not close the
// stream.
//
// When Greet fails, the guest must be killed. Errors have code Timeout or Unavailable; one that
// wraps *Refused comes from the guest itself. Lives begin one at a time on a stream, and nothing
// else may read from it.
func Greet(ctx context.Context, m Machine, hello protocol.Hello) (*Client, error) {
	if err := ctx.Err(); err != nil {
		return nil, unavailable(err)
	}
	ctx, cancel := runqueue.WithTimeout(ctx, BootTimeout, m.PIDs)
	defer cancel()
	stream := m.Stream()
	conn, err := newLifeConn(stream)
	if err != nil {
		return nil, unavailable(err)
	}
	release := context.AfterFunc(ctx, func() { stream.SetDeadline(past) })
	c, err := sayHello(conn, hello)
	if !release() && err == nil {
		err = context.Cause(ctx) // the stream was cut at the last moment
	}
	if err != nil {
		conn.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, unavailable(err)
	}
	c.pids = m.PIDs
	return c, nil
}

// unavailable gives an error of Greet its code and a hint, but a cancelled context's.
func unavailable(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	if refused := (*Refused)(nil); errors.As(err, &refused) {
		return refused.Explain(refused, "see the box's console log")
	}
	code := agentbox.Unavailable
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		code = agentbox.Timeout
	}
	return agentbox.Errorf(code, "the guest agent does not answer: %w", err).WithHint("see the box's console log")
}

// sayHello sends the hello and logs in. The login's first bytes follow the hello at once; its
// first read waits for the Ready.
func sayHello(conn *lifeConn, hello protocol.Hello) (*Client, error) {
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), hello.HostKey)
	if err != nil {
		return nil, fmt.Errorf("host key: %w", err)
	}
	config, err := clientConfig(key)
	if err != nil {
		return nil, err
	}
	hello.Time = time.Now()
	message, err := protocol.AppendLife(nil, hello)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write(message); err != nil {
		return nil, fmt.Errorf("send hello: %w", err)
	}
	conn.token = hello.Token
	sshConn, channels, requests, err := ssh.NewClientConn(conn, UserName, config)
	if conn.refused != nil {
		return nil, conn.refused
	}
	if err != nil {
		return nil, fmt.Errorf("log in: %w", err)
	}
	c := &Client{conn: conn, ssh: ssh.NewClient(sshConn, channels, requests), kernel: clean(conn.ready.Kernel)}
	c.work.Go(func() {
		c.ssh.Wait() // its error is that of every call on the connection
		c.lost.Store(true)
	})
	return c, nil
}

// clientConfig offers one algorithm of each kind: both ends are ours, and each further one delays
// the login. The ciphers add no protection to the stream; SSH has no connection without.
func clientConfig(key *ecdsa.PrivateKey) (*ssh.ClientConfig, error) {
	host, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	return &ssh.ClientConfig{
		Config: ssh.Config{
			KeyExchanges: []string{ssh.KeyExchangeCurve25519},
			Ciphers:      []string{ssh.CipherAES128GCM},
			MACs:         []string{ssh.HMACSHA256ETM},
		},
		User:              UserName,
		BannerCallback:    func(reason string) error { return &Refused{clean(reason)} },
		HostKeyCallback:   ssh.FixedHostKey(host),
		HostKeyAlgorithms: []string{ssh.KeyAlgoECDSA256},
		ClientVersion:     "SSH-2.0-agentbox",
	}, nil
}

// userHint says what to do where the image lacks a user, and is "" for every other reason.
func userHint(reason string) string {
	if !strings.Contains(reason, protocol.NoSuchUser) {
		return ""
	}
	return "user: names one of the users in the image's /etc/passwd; without it the box has the image's own, whose id is 1000"
}

// Refused is why a guest will not begin a life, in its own words made printable. It must be killed.
type Refused struct{ Reason string }

func (r *Refused) Error() string { return "the guest could not become ready: " + r.Reason }

// Explain gives the error a code and a hint, which is console where the reason needs no other.
func (r *Refused) Explain(err error, console string) error {
	if hint := userHint(r.Reason); hint != "" {
		return agentbox.Errorf(agentbox.Invalid, "%w", err).WithHint("%s", hint)
	}
	return agentbox.Errorf(agentbox.Unavailable, "%w", err).WithHint("%s", console)
}

// clean makes text from a guest fit for a message: one printable line of bounded length.
func clean(s string) string {
	const most = 400 // runes
	if r := []rune(s); len(r) > most {
		s = string(r[:most])
	}
	return agentbox.Printable(strings.ReplaceAll(s, "\n", " "))
}

// lifeConn is the host's end of one life on a stream that it does not own.
type lifeConn struct {
	net.Conn
	ahead *bounded.ReadAhead // of Conn, so that a write that blocks keeps the guest from nothing
	r     *bufio.Reader      // of ahead
	end   sync.Once

	// The fields below belong to the goroutine that reads.
	token   string         // of the Ready to wait for before anything is read; "" once it came
	ready   protocol.Ready //
	refused error          // why the guest is not ready
}

// past is a deadline that makes reads and writes fail at once.
var past = time.Unix(1, 0)

// newLifeConn clears a deadline that the life before was ended with, and begins to read.
func newLifeConn(stream net.Conn) (*lifeConn, error) {
	if err := stream.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	ahead := bounded.NewReadAhead(stream, bounded.SSHAhead)
	return &lifeConn{Conn: stream, ahead: ahead, r: bufio.NewReader(ahead)}, nil
}

func (l *lifeConn) Read(p []byte) (int, error) {
	if l.token != "" {
		if l.refused = l.awaitReady(); l.refused != nil {
			return 0, l.refused
		}
		l.token = ""
	}
	return l.r.Read(p)
}

// awaitReady drops what the stream has left of earlier lives, and reads the Ready.
func (l *lifeConn) awaitReady() (err error) {
	l.ready, err = protocol.ReadReady(l.r, l.token)
	switch {
	case err != nil:
		return fmt.Errorf("wait for ready: %w", err)
	case l.ready.Error != "":
		return &Refused{clean(l.ready.Error)}
	case l.ready.Version != protocol.Version:
		return fmt.Errorf("the guest agent speaks version %d, not %d", l.ready.Version, protocol.Version)
	}
	return nil
}

// Close makes this life's reads and writes fail, and returns when nothing reads the stream any
// more. The stream stays open for the next life, which a second call leaves alone: SSH closes a
// connection that has failed, and so does its user.
func (l *lifeConn) Close() (err error) {
	l.end.Do(func() {
		err = l.Conn.SetDeadline(past)
		l.ahead.Close()
	})
	return err
}
