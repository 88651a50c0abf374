package guest

import (
	"crypto/rand"
	"encoding/hex"
	"time"

	"agentbox/vmm/guest/protocol"
)

// NewHello begins a new life of a guest: its token, random numbers, machine id and host key are
// drawn anew each time. hostname must be one that protocol.ParseHello takes. Attach is left for the
// caller to set; so is HostKey, where a lease keeps one through several lives.
func NewHello(hostname string) protocol.Hello {
	var random [64 + 16 + 16 + 32]byte
	rand.Read(random[:]) // never fails since Go 1.24
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
