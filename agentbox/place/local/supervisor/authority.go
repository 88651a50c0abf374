package supervisor

import (
	"os"

	"agentbox/agentbox/durable"
	"agentbox/agentbox/home"
	"agentbox/policy/gateway"
	"agentbox/vmm/guest/protocol"
)

// authorityName is the same for every box, so that the file in which a box looks for its authority,
// protocol.AuthorityFile, is known before the box is. Two authorities differ by their keys.
const authorityName = "box"

// authority reads the certificate authority that the box trusts from the box's directory, or
// creates it. It stays the same for as long as the box exists, so that programs which read it once
// still trust it when the box is resumed. A file that does not parse is replaced, as the box could
// reach nothing with it. Creating one takes milliseconds, which is why start does it concurrently.
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

// trustedAuthority is the authority as the guest gets it: without its key, and with the other
// authorities that this machine trusts.
func trustedAuthority(ca *gateway.CA, others string) (*protocol.Authority, error) {
	file, err := ca.FileName()
	if err != nil {
		return nil, err
	}
	return &protocol.Authority{PEM: string(ca.PEM()), File: file, Others: others}, nil
}
