package main

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

// signingKey is the publisher's. It implements dsse.Signer.
type signingKey struct{ ed25519.PrivateKey }

// readKey reads a key as `openssl genpkey -algorithm ed25519` writes it.
func readKey(path string) (key signingKey, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return key, err
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return key, fmt.Errorf("%s is no key in PEM", path)
	}
	any, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return key, fmt.Errorf("%s: %w", path, err)
	}
	private, ok := any.(ed25519.PrivateKey)
	if !ok {
		return key, errors.New(path + " is no key of Ed25519: openssl genpkey -algorithm ed25519 makes one")
	}
	return signingKey{private}, nil
}

// Sign implements dsse.Signer.
func (s signingKey) Sign(_ context.Context, data []byte) ([]byte, error) {
	return s.PrivateKey.Sign(nil, data, crypto.Hash(0))
}

// KeyID implements dsse.Signer.
func (s signingKey) KeyID() (string, error) {
	der, err := x509.MarshalPKIXPublicKey(s.Public())
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:]), err
}

// sign signs what the others can be checked by: the statement of provenance, in an envelope of DSSE beside
// it, and the checksums, as openssl verifies. Ed25519 gives the same bytes each time.
func (r *release) sign() error {
	if r.key == "" {
		return nil
	}
	key, err := readKey(r.key)
	if err != nil {
		return err
	}
	signer, err := dsse.NewEnvelopeSigner(key)
	if err != nil {
		return err
	}
	statement, err := os.ReadFile(r.path(r.statement()))
	if err != nil {
		return err
	}
	envelope, err := signer.SignPayload(context.Background(), "application/vnd.in-toto+json", statement)
	if err != nil {
		return err
	}
	b, err := json.Marshal(envelope)
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.path(r.statement()+"l"), append(b, '\n'), 0o644); err != nil { // one a line: .jsonl
		return err
	}
	sums, err := os.ReadFile(r.path("SHA256SUMS"))
	if err != nil {
		return err
	}
	signature, err := key.Sign(context.Background(), sums)
	if err != nil {
		return err
	}
	return os.WriteFile(r.path("SHA256SUMS.sig"), signature, 0o644)
}
