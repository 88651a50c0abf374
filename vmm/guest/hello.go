package guest

import (
	"crypto/rand"
	"encoding/hex"
	"time"

	"agentbox/vmm/guest/protocol"
)

// NewHello begins a new life of a guest, with a new token, random numbers, machine id and host key.
// hostname must be one that protocol.ParseHello accepts. The caller may set Attach, and a HostKey
// that a lease keeps through several lives.
func NewHello(hostname string) protocol.Hello {
	var random [64 + 16 + 16 + 32]byte
	rand.Read(random[:]) // never fails since Go 1.24
	random[96] &= 0x7f   // below the order of P-256, so that it is a private key
	return protocol.Hello{
		Version:   protocol.Version,
		Token:     hex.EncodeToString(random[64:80]),
		Entropy:   random[:64],
		Time:      time.Now(),
		Hostname:  hostname,
		MachineID: hex.EncodeToString(random[80:96]),
		HostKey:   random[96:],
	}
}
