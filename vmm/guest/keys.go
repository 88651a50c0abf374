package guest

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"agentbox/vmm/guest/protocol"
)

// Keys are the SSH keys of one lease, which are never in a template. The host has none: the process
// that can say hello on the guest's stream is the host.
type Keys struct {
	Host ed25519.PrivateKey // by which the guest proves that it read the Hello
}

// NewKeys mints the keys of a lease.
func NewKeys() (Keys, error) {
	_, host, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Keys{}, fmt.Errorf("mint host key: %w", err)
	}
	return Keys{Host: host}, nil
}

// Hello begins a new life of a guest with these keys: its token, random numbers and machine id are
// drawn anew each time. hostname must be one that protocol.ParseHello takes. Attach is left for the
// caller to set.
func (k Keys) Hello(hostname string) protocol.Hello {
	var random [64 + 16 + 16]byte
	rand.Read(random[:]) // never fails since Go 1.24
	return protocol.Hello{
		Version:   protocol.Version,
		Token:     hex.EncodeToString(random[64:80]),
		Entropy:   random[:64],
		Time:      time.Now(),
		Hostname:  hostname,
		MachineID: hex.EncodeToString(random[80:]),
		HostKey:   k.Host.Seed(),
	}
}
