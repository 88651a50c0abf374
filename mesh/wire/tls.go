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
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
)

// errNonMember ends a non-member's handshake. It is never sent: TLS only reports a failure.
var errNonMember = errors.New("not a member of this team")

// certificate is self-signed, without a name or an expiry. Only its key counts.
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

// peerOf returns the peer that the other side of a finished handshake proved to be.
func peerOf(state tls.ConnectionState) (identity.PeerID, error) {
	if len(state.PeerCertificates) != 1 {
		return identity.PeerID{}, errNonMember
	}
	key, ok := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	if !ok {
		return identity.PeerID{}, errNonMember
	}
	return identity.PeerOf(key), nil
}

const protocolPrefix = "ab1/"

// protocol is the ALPN of a service. Between members it contains a tag of the team: a peer that
// does not know the root key cannot name it, and is refused before it sees our certificate. A guest
// knows the id of its invitation instead.
func protocol(root ed25519.PublicKey, s Service) string {
	if s.guest() {
		return protocolPrefix + string(s)
	}
	tag := sha256.Sum256(append([]byte("agentbox alpn 1\n"), root...))
	return protocolPrefix + hex.EncodeToString(tag[:8]) + "/" + string(s)
}

// baseTLS is common to both sides: TLS 1.3, certificates on both sides, no resumption.
func (n *Node) baseTLS() *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{n.cert},
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, // VerifyConnection does: there are no authorities, only the list
		SessionTicketsDisabled: true,
	}
}

// serverTLS decides by the client's protocol what is required of it.
func (n *Node) serverTLS() *tls.Config {
	base := n.baseTLS()
	base.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if len(hello.SupportedProtos) == 1 {
			proto := hello.SupportedProtos[0]
			if s, handle := n.serviceOf(proto); handle != nil {
				return n.checkingTLS(proto, &n.counters.Refused, func(id identity.PeerID) bool { return s.guest() || n.admits(id) }), nil
			}
		}
		n.counters.Refused.Add(1)
		return nil, errNonMember
	}
	return base
}

// clientTLS accepts one peer, or any member when want is zero; for a guest's service, anybody.
func (n *Node) clientTLS(root ed25519.PublicKey, s Service, want identity.PeerID) *tls.Config {
	refused := new(atomic.Uint64) // Failed counts it
	return n.checkingTLS(protocol(root, s), refused, func(id identity.PeerID) bool {
		return s.guest() || id != n.self && (want.IsZero() || id == want) && n.admits(id)
	})
}

// checkingTLS speaks one protocol with the peers that may allows, and counts the others.
func (n *Node) checkingTLS(proto string, refused *atomic.Uint64, may func(identity.PeerID) bool) *tls.Config {
	cfg := n.baseTLS()
	cfg.NextProtos = []string{proto}
	cfg.VerifyConnection = func(state tls.ConnectionState) error {
		if id, err := peerOf(state); err == nil && may(id) {
			return nil
		}
		refused.Add(1)
		return errNonMember
	}
	return cfg
}

// resetKey lets peers notice at once that this node has restarted.
func resetKey(key ed25519.PrivateKey) (*quic.StatelessResetKey, error) {
	b, err := hkdf.Key(sha256.New, key.Seed(), nil, "agentbox stateless reset 1", len(quic.StatelessResetKey{}))
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Internal, "make the reset key: %w", err)
	}
	return (*quic.StatelessResetKey)(b), nil
}
