//go:build linux

package agent

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"

	"golang.org/x/crypto/ssh"

	"agentbox/vmm/guest/protocol"
)

// server is the SSH server of one life.
type server struct {
	agent  *Agent
	config *ssh.ServerConfig
}

// connection is one SSH connection that has logged in.
type connection struct {
	agent *Agent
	life  *life
	ssh   *ssh.ServerConn
	binds binds // ports it asked the guest to listen on
}

// newServer prepares the server with the keys of this life only.
func newServer(a *Agent, h protocol.Hello) (*server, error) {
	host, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(h.HostKey))
	if err != nil {
		return nil, fmt.Errorf("host key: %w", err)
	}
	if _, err := ssh.ParsePublicKey(h.ClientKey); err != nil {
		return nil, fmt.Errorf("client key: %w", err)
	}
	config := &ssh.ServerConfig{
		Config:                  protocolConfig(),
		PublicKeyAuthAlgorithms: []string{ssh.KeyAlgoED25519},
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if !bytes.Equal(key.Marshal(), h.ClientKey) {
				return nil, errors.New("this key may not log in")
			}
			return nil, nil
		},
		ServerVersion: "SSH-2.0-agentbox",
	}
	config.AddHostKey(host)
	return &server{agent: a, config: config}, nil
}

// protocolConfig narrows SSH to what costs least under emulation.
func protocolConfig() ssh.Config {
	return ssh.Config{
		KeyExchanges: []string{ssh.KeyExchangeCurve25519},
		Ciphers:      []string{ssh.CipherAES128GCM, ssh.CipherChaCha20Poly1305},
		MACs:         []string{ssh.HMACSHA256ETM},
	}
}

// serve runs the life's connection to its end.
func (s *server) serve(l *life) {
	conn, channels, requests, err := ssh.NewServerConn(l, s.config)
	if err != nil {
		if !l.ended.Load() {
			s.agent.Log.Warn("ssh handshake failed", "err", err)
		}
		return
	}
	c := &connection{agent: s.agent, life: l, ssh: conn}
	defer c.binds.close()
	s.agent.goDo("requests", func() { c.globalRequests(requests) })
	for nc := range channels {
		c.open(nc)
	}
}

// open starts serving a channel of a kind that the agent knows.
func (c *connection) open(nc ssh.NewChannel) {
	switch nc.ChannelType() {
	case "session":
		ch, requests, err := nc.Accept()
		if err == nil {
			s := &session{conn: c, ch: ch, as: c.ssh.User(), env: map[string]string{}}
			c.agent.goDo("session", func() { s.serve(requests) })
		}
	case "direct-tcpip", "direct-streamlocal@openssh.com":
		c.agent.goDo("forward", func() { c.direct(nc) })
	default:
		nc.Reject(ssh.UnknownChannelType, "agentbox does not serve "+nc.ChannelType())
	}
}
