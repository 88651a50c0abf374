package ssh

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io/fs"
	"net"
	"os"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"agentbox/agentbox/durable"
	"agentbox/agentbox/environment"
)

// serve offers the account's connection at the socket where clients look for that of a box, with keys
// of its own. A client needs no key of the user's, and the account gets nothing of ours.
func (r *running) serve() error {
	names := r.kind.Home.Box(r.spec.ID)
	client, err := clientKey(names.Key())
	if err != nil {
		return err
	}
	host, err := newKey()
	if err != nil {
		return err
	}
	signer, err := ssh.NewSignerFromKey(host)
	if err != nil {
		return err
	}
	line := knownhosts.Line([]string{"agentbox"}, signer.PublicKey()) + "\n"
	if err := errors.Join(os.MkdirAll(names.Run, 0o700), durable.Replace(names.KnownHosts(), []byte(line), 0o600)); err != nil {
		return err
	}
	if err := os.Remove(names.SSH()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", names.SSH())
	if err != nil {
		return err
	}
	backend := func(ctx context.Context) (*ssh.Client, error) { return r.kind.client(ctx, r.spec.Account) }
	relay := environment.NewRelay(signer, client.PublicKey(), backend, r.kind.Log)
	go func() {
		defer close(r.served)
		_ = relay.Serve(r.ctx, l) // it logs, and clients see that nobody listens
	}()
	return nil
}

// clientKey is the key with which clients of this machine log in, which stays the same for as long as
// the box exists.
func clientKey(file string) (ssh.Signer, error) {
	if b, err := os.ReadFile(file); err == nil {
		if signer, err := ssh.ParsePrivateKey(b); err == nil {
			return signer, nil
		}
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(key, "agentbox")
	if err != nil {
		return nil, err
	}
	if err := durable.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		return nil, err
	}
	return ssh.NewSignerFromKey(key)
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }
