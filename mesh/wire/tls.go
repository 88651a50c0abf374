package wire

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"math/big"
	"time"

	"github.com/quic-go/quic-go"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
)

// errStranger ends the handshake of a peer that is not a member. It is never sent: TLS says only
// that it failed.
var errStranger = errors.New("not a member of this team")

// certificate is what this identity shows: self-signed, without a name or an end. Only its key
// counts.
func certificate(key ed25519.PrivateKey) (tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), // of no known end, RFC 5280
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// peerOf is who the other side of a finished handshake proved to be.
func peerOf(state tls.ConnectionState) (identity.PeerID, error) {
	if len(state.PeerCertificates) != 1 {
		return identity.PeerID{}, errStranger
	}
	key, ok := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	if !ok {
		return identity.PeerID{}, errStranger
	}
	return identity.PeerOf(key), nil
}

// protocol is the ALPN of a service among members. A peer that does not know the root key cannot
// say it, and is refused before it sees our certificate.
func protocol(root ed25519.PublicKey, s Service) string {
	tag := sha256.Sum256(append([]byte("agentbox alpn 1\n"), root...))
	return "ab1/" + hex.EncodeToString(tag[:8]) + "/" + string(s)
}

// guestProtocol is what the holder of an invitation speaks.
func guestProtocol(id string) string { return "ab1/join/" + id }

// baseTLS is what both sides have in common: TLS 1.3, both certificates, no resumption.
func (n *Node) baseTLS() *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{n.cert},
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, // VerifyConnection does: there are no authorities, only the list
		SessionTicketsDisabled: true,
	}
}

// serverTLS chooses what a client is asked for by what it wants to speak.
func (n *Node) serverTLS() *tls.Config {
	base := n.baseTLS()
	base.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if len(hello.SupportedProtos) != 1 || !n.speaks(hello.SupportedProtos[0]) {
			n.count(func(c *Counters) { c.Refused++ })
			return nil, errStranger
		}
		proto := hello.SupportedProtos[0]
		cfg := n.baseTLS()
		cfg.NextProtos = []string{proto}
		cfg.VerifyConnection = func(state tls.ConnectionState) error {
			id, err := peerOf(state)
			if err == nil && !n.guest(proto) && !n.admits(id) {
				err = errStranger
			}
			if err != nil {
				n.count(func(c *Counters) { c.Refused++ })
			}
			return err
		}
		return cfg, nil
	}
	return base
}

// clientTLS accepts one peer, or any member when want is zero.
func (n *Node) clientTLS(proto string, want identity.PeerID) *tls.Config {
	cfg := n.baseTLS()
	cfg.NextProtos = []string{proto}
	cfg.VerifyConnection = func(state tls.ConnectionState) error {
		id, err := peerOf(state)
		switch {
		case err != nil:
			return err
		case !want.IsZero() && id != want, want.IsZero() && id == n.self, !n.admits(id):
			return errStranger
		}
		return nil
	}
	return cfg
}

// resetKey lets peers notice at once that this node was restarted.
func resetKey(key ed25519.PrivateKey) (*quic.StatelessResetKey, error) {
	b, err := hkdf.Key(sha256.New, key.Seed(), nil, "agentbox stateless reset 1", len(quic.StatelessResetKey{}))
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Internal, "make the reset key: %w", err)
	}
	return (*quic.StatelessResetKey)(b), nil
}
