package supervisor

import (
	"os"

	"agentbox/agentbox/durable"
	"agentbox/agentbox/home"
	"agentbox/policy/gateway"
	"agentbox/vmm/guest/protocol"
)

// authorityName is the same for every box, so that the name under which a box looks for its
// authority, protocol.AuthorityFile, is known before the box is. What tells two authorities apart
// is their keys.
const authorityName = "box"

// authority is the certificate authority that the box believes. It stays the same for as long as
// the box exists: programs that read it once go on with it when the box is resumed. It is read from
// the box's directory or made there; a file that makes no sense is replaced, as the box could reach
// nothing with it. Making one takes milliseconds, which is why start does it beside.
func authority(names home.Box) (*gateway.CA, error) {
	if b, err := os.ReadFile(names.Authority()); err == nil {
		if ca, err := gateway.ParseCA(b); err == nil {
			return ca, nil
		}
	}
	ca, err := gateway.NewCA(authorityName)
	if err != nil {
		return nil, err
	}
	text, err := ca.Encode()
	if err != nil {
		return nil, err
	}
	return ca, durable.WriteFile(names.Authority(), text, 0o600)
}

// trusted is the authority as the guest gets it: without its key, and with others that this machine
// believes.
func trusted(ca *gateway.CA, others string) (*protocol.Authority, error) {
	file, err := ca.FileName()
	if err != nil {
		return nil, err
	}
	return &protocol.Authority{PEM: string(ca.PEM()), File: file, Others: others}, nil
}
