package guest

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/vmm/guest/protocol"
)

// Keys are both ends' SSH keys for one lease. Neither is ever in a template.
type Keys struct {
	Host   ed25519.PrivateKey
	Client ed25519.PrivateKey
}

// NewKeys mints the keys of a lease.
func NewKeys() (Keys, error) {
	_, host, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Keys{}, fmt.Errorf("mint host key: %w", err)
	}
	_, client, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Keys{}, fmt.Errorf("mint client key: %w", err)
	}
	return Keys{Host: host, Client: client}, nil
}

// Hello begins a new life of a guest with these keys: its token, random numbers and machine id are drawn anew each time.
func (k Keys) Hello(hostname string) protocol.Hello {
	var random [64 + 16 + 16]byte
	rand.Read(random[:]) // never fails since Go 1.24
	client, err := ssh.NewPublicKey(k.Client.Public())
	var clientKey []byte
	if err == nil { // it is for every key NewKeys made; the agent refuses an empty one
		clientKey = client.Marshal()
	}
	return protocol.Hello{
		Version:   protocol.Version,
		Token:     hex.EncodeToString(random[64:80]),
		Entropy:   random[:64],
		Time:      time.Now(),
		Hostname:  hostname,
		MachineID: hex.EncodeToString(random[80:]),
		HostKey:   k.Host.Seed(),
		ClientKey: clientKey,
	}
}
