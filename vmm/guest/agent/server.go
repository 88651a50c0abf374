//go:build linux

package agent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"fmt"

	"golang.org/x/crypto/ssh"

	"agentbox/vmm/guest/protocol"
)

// connection is one SSH connection that has logged in. It ends with its life.
type connection struct {
	agent *Agent
	life  *life
	ssh   *ssh.ServerConn
	binds binds // ports it asked the guest to listen on
}

// newServer configures the server with the host key of this life. A client needs no key to log in:
// nobody but the host can write to the stream that the Hello came from.
func newServer(b *greeting) (*ssh.ServerConfig, error) {
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), b.hello.HostKey)
	if err != nil {
		return nil, fmt.Errorf("host key: %w", err)
	}
	host, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return nil, fmt.Errorf("host key: %w", err)
	}
	config := &ssh.ServerConfig{
		// The cheapest under emulation. The host offers a part of it (vmm/guest/connect.go).
		Config: ssh.Config{
			KeyExchanges: []string{ssh.KeyExchangeCurve25519},
			Ciphers:      []string{ssh.CipherAES128GCM, ssh.CipherChaCha20Poly1305},
			MACs:         []string{ssh.HMACSHA256ETM},
		},
		NoClientAuth: true,
		NoClientAuthCallback: func(ssh.ConnMetadata) (*ssh.Permissions, error) { // the host kills the machine after an error
			<-b.renewed
			if b.err != nil {
				return nil, &ssh.BannerError{Err: b.err, Message: b.err.Error()}
			}
			return nil, nil
		},
		ServerVersion: "SSH-2.0-agentbox",
	}
	config.AddHostKey(host)
	return config, nil
}

// serve runs the life's connection until the client has left or the life has ended.
func (a *Agent) serve(l *life, config *ssh.ServerConfig) {
	conn, channels, requests, err := ssh.NewServerConn(l, config)
	if err != nil {
		if !l.ended.Load() {
			a.Log.Warn("ssh greeting failed", "err", err)
		}
		return
	}
	c := &connection{agent: a, life: l, ssh: conn, binds: binds{}}
	a.goRecover("requests", func() { c.globalRequests(requests) })
	for nc := range channels {
		c.open(nc)
	}
}

// open starts serving a channel. A type that the agent does not know is refused, which is how the
// host checks that the guest is alive.
func (c *connection) open(nc ssh.NewChannel) {
	switch nc.ChannelType() {
	case "session":
		ch, requests, err := nc.Accept()
		if err == nil {
			s := &session{conn: c, ch: ch, user: c.ssh.User(), env: map[string]string{}}
			c.agent.goRecover("session", func() { s.serve(requests) })
		}
	case "direct-tcpip", "direct-streamlocal@openssh.com":
		c.agent.goRecover("forward", func() { c.directTCPIP(nc) })
	case protocol.JobChannel:
		c.agent.goRecover("job", func() { c.job(nc) })
	default:
		nc.Reject(ssh.UnknownChannelType, "agentbox does not serve "+nc.ChannelType())
	}
}
