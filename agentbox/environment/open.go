package environment

import (
	"context"
	"fmt"
	"net"
	"os"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
)

// Address is where an environment of this machine is reached, with the files of both ends' keys.
type Address struct {
	Name       string // for errors
	Socket     string // unix socket with an SSH server
	Key        string // file with the private key that may log in
	KnownHosts string // file whose first line has the host key
}

// Open connects to an environment of this machine. Commands in the box run as user. The files are
// read each time, as each life has another host key. The error is Unavailable if nothing answers,
// and Corrupt if a file is not what it should be.
func Open(ctx context.Context, a Address, user string) (*ssh.Client, error) {
	key, err := os.ReadFile(a.Key)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Unavailable, "box %s: %w", a.Name, err)
	}
	hosts, err := os.ReadFile(a.KnownHosts)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Unavailable, "box %s: %w", a.Name, err)
	}
	login, err := NewLogin(user, key, hosts)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Corrupt, "box %s: %s and %s: %w", a.Name, a.Key, a.KnownHosts, err)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", a.Socket)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Unavailable, "box %s does not answer: %w", a.Name, err).WithHint("agentbox show %s", a.Name)
	}
	return NewClient(ctx, conn, login)
}

// NewLogin reads the keys of both ends: a private key in PEM, and the first line of a known_hosts
// file.
func NewLogin(user string, key, knownHosts []byte) (Login, error) {
	signer, err := ssh.ParsePrivateKey(key)
	if err != nil {
		return Login{}, fmt.Errorf("the key: %w", err)
	}
	_, _, host, _, _, err := ssh.ParseKnownHosts(knownHosts)
	if err != nil {
		return Login{}, fmt.Errorf("the host key: %w", err)
	}
	return Login{User: user, Key: signer, HostKey: host}, nil
}
