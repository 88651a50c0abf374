package catalogue

import (
	"crypto/ed25519"
	"encoding/binary"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
)

// Head says which set of records a catalogue is, and is signed by its owner. The team is part of
// what is signed, so that a catalogue of another team of the same peer is none.
type Head struct {
	Owner     identity.PeerID `json:"owner"`
	Sequence  uint64          `json:"sequence"` // 0: nothing was ever in it
	Digest    agentbox.Digest `json:"digest"`
	Signature []byte          `json:"signature"`
}

// headDomain keeps a signature over a head from being one over anything else.
const headDomain = "agentbox catalogue 1\n"

// signed is what the signature is over.
func (h Head) signed(team agentbox.Digest) []byte {
	b := append([]byte(headDomain), team[:]...)
	b = append(b, h.Owner[:]...)
	b = binary.BigEndian.AppendUint64(b, h.Sequence)
	return append(b, h.Digest[:]...)
}

// sign gives the head with owner and signature.
func (h Head) sign(team agentbox.Digest, key ed25519.PrivateKey) Head {
	h.Owner = identity.PeerOf(key.Public().(ed25519.PublicKey))
	h.Signature = ed25519.Sign(key, h.signed(team))
	return h
}

// verify tells whether the peer with a key signed the head, in a team, as an error of code Corrupt.
func (h Head) verify(team agentbox.Digest, key ed25519.PublicKey) error {
	if len(key) != ed25519.PublicKeySize || identity.PeerOf(key) != h.Owner || !ed25519.Verify(key, h.signed(team), h.Signature) {
		return corrupt("the catalogue of %s is not signed by it", h.Owner.Short())
	}
	return nil
}
