package supervisor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"os"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox/home"

	"agentbox/agentbox/durable"
)

// localKey is the key with which clients on this machine log in to the relay. Unlike the guest's
// keys it stays the same for as long as the box exists: stock ssh reads it while its proxy command
// is still waking the box. Only the user can read its directory, so possession of the file is the
// login.
func localKey(names home.Box) (ssh.Signer, error) {
	if b, err := os.ReadFile(names.Key()); err == nil {
		if signer, err := ssh.ParsePrivateKey(b); err == nil {
			return signer, nil
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(key, "agentbox")
	if err != nil {
		return nil, err
	}
	if err := durable.WriteFile(names.Key(), pem.EncodeToMemory(block), 0o600); err != nil {
		return nil, err
	}
	return ssh.NewSignerFromKey(key)
}
