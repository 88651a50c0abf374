package catalogue

import (
	"crypto/ed25519"
	"encoding/binary"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
)

// Head says which set of records a catalogue is. Its owner signs it. The signature covers the team,
// so a peer's catalogue of another team is not valid here.
type Head struct {
	Owner     identity.PeerID `json:"owner"`
	Sequence  uint64          `json:"sequence"` // 0: nothing was ever in it
	Digest    agentbox.Digest `json:"digest"`
	Signature []byte          `json:"signature"`
	// Extra is the number of the Extra that whoever shows the head has. It is not signed.
	Extra uint64 `json:"extra,omitempty"`
}

// headDomain keeps a signature over a head from being valid over anything else.
const headDomain = "agentbox catalogue 1\n"

// signed returns the bytes that the signature covers. The domain is headDomain or extraDomain.
func (h Head) signed(domain string, team agentbox.Digest) []byte {
	b := append([]byte(domain), team[:]...)
	b = append(b, h.Owner[:]...)
	b = binary.BigEndian.AppendUint64(b, h.Sequence)
	return append(b, h.Digest[:]...)
}

func (h Head) sign(domain string, team agentbox.Digest, key ed25519.PrivateKey) Head {
	h.Owner = identity.PeerOf(key.Public().(ed25519.PublicKey))
	h.Signature = ed25519.Sign(key, h.signed(domain, team))
	return h
}

// verify checks that the peer with a key signed the head, in a team; the error has code Corrupt.
func (h Head) verify(domain string, team agentbox.Digest, key ed25519.PublicKey) error {
	if len(key) != ed25519.PublicKeySize || identity.PeerOf(key) != h.Owner || !ed25519.Verify(key, h.signed(domain, team), h.Signature) {
		return corrupt("the catalogue of %s is not signed by it", h.Owner.Short())
	}
	return nil
}
