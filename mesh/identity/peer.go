package identity

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"agentbox/agentbox"
)

// PeerID names a peer: the SHA-256 of its public key. It is comparable; the zero value is nobody.
// It is public: others see it in catalogues and logs.
type PeerID [sha256.Size]byte

// PeerOf returns the peer that has a key.
func PeerOf(key ed25519.PublicKey) PeerID { return sha256.Sum256(key) }

// ParsePeer reads what String writes. Anything else is Invalid.
func ParsePeer(s string) (PeerID, error) {
	var p PeerID
	if len(s) == 2*len(p) && strings.ToLower(s) == s {
		if _, err := hex.Decode(p[:], []byte(s)); err == nil {
			return p, nil
		}
	}
	return PeerID{}, agentbox.Errorf(agentbox.Invalid, "%.80q is not a peer (64 lower-case hex digits)", s).
		WithHint("agentbox mesh peers shows them")
}

// String is the canonical form, 64 lower-case hex digits.
func (p PeerID) String() string { return hex.EncodeToString(p[:]) }

// Short is the form for people: the first twelve hex digits. It may be ambiguous.
func (p PeerID) Short() string { return hex.EncodeToString(p[:6]) }

// IsZero reports whether the PeerID names nobody.
func (p PeerID) IsZero() bool { return p == PeerID{} }

// Compare orders peers, as strings.Compare does.
func (p PeerID) Compare(q PeerID) int { return strings.Compare(string(p[:]), string(q[:])) }

// MarshalText makes a peer a JSON string.
func (p PeerID) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (p *PeerID) UnmarshalText(b []byte) (err error) {
	*p, err = ParsePeer(string(b))
	return err
}
