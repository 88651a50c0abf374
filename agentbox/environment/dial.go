package environment

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/agentbox/bounded"
)

// AnswerTimeout bounds every wait for an answer that the other end owes at once: handshakes, new
// channels, replies. It is long because emulated guests are slow, and giving up on a healthy box
// costs its user a session.
const AnswerTimeout = 30 * time.Second

// Login is what both ends of a connection know of each other beforehand. There are no certificates
// and no questions to the user: the keys were made for this box alone, and given to both ends out
// of band.
type Login struct {
	User    string
	Key     ssh.Signer    // proves who we are
	HostKey ssh.PublicKey // the only one the other end may have
}

// NewClient makes an SSH client on conn, which may be any connection, and owns it from then on: on
// failure conn is closed. ctx and AnswerTimeout bound the handshake. A wrong host key, a refused
// login and a silent server are errors of code Unavailable.
func NewClient(ctx context.Context, conn net.Conn, login Login) (*ssh.Client, error) {
	conn = bounded.NewConn(conn)
	ctx, cancel := context.WithTimeoutCause(ctx, AnswerTimeout, noAnswerError("finish the SSH handshake"))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	config := &ssh.ClientConfig{
		// The cheapest first: nobody records what passes over a local socket or a virtual serial
		// port.
		Config:            ssh.Config{KeyExchanges: []string{ssh.KeyExchangeCurve25519, ssh.KeyExchangeMLKEM768X25519, ssh.KeyExchangeECDHP256}},
		User:              login.User,
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(login.Key)},
		HostKeyCallback:   fixedHostKey(login.HostKey),
		HostKeyAlgorithms: []string{login.HostKey.Type()},
		ClientVersion:     "SSH-2.0-agentbox",
	}
	c, chans, reqs, err := ssh.NewClientConn(conn, "agentbox", config)
	if err == nil && !stop() {
		c.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, agentbox.Errorf(agentbox.Unavailable, "SSH to the box: %w", err)
	}
	return ssh.NewClient(c, chans, reqs), nil
}

// fixedHostKey admits one key. Its error names both keys.
func fixedHostKey(want ssh.PublicKey) ssh.HostKeyCallback {
	return func(_ string, _ net.Addr, got ssh.PublicKey) error {
		if bytes.Equal(got.Marshal(), want.Marshal()) {
			return nil
		}
		return fmt.Errorf("the host key is %s, not the one minted for this box (%s)",
			ssh.FingerprintSHA256(got), ssh.FingerprintSHA256(want))
	}
}

// noAnswerError is the error for an answer that did not come; what continues "the box did not".
func noAnswerError(what string) *agentbox.Error {
	return agentbox.Errorf(agentbox.Unavailable, "the box did not %s within %s", what, AnswerTimeout).
		WithHint("agentbox logs --console shows what it is doing; agentbox reset starts it afresh")
}
