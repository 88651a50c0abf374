package gossip

import (
	"crypto/ed25519"
	"encoding/binary"
	"net/netip"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
)

// MaxAddresses is how many addresses a Meta may have: with all of them it must stay below 512
// bytes.
const MaxAddresses = 4

// Meta is what every peer knows of every other without asking: small, signed by its peer, replaced
// as a whole. Others compare Sequence and List with what they have. Nothing in it is a time.
type Meta struct {
	Sequence  uint64           // of its catalogue
	Digest    agentbox.Digest  // of its catalogue
	List      [8]byte          // the beginning of the digest of the member list it has
	Load      uint16           // percent of its processors in use
	Free      uint32           // MiB free on the disk of its store
	Addresses []netip.AddrPort // where it listens
}

// The lengths of its parts in bytes, in order: sequence, digest, list, load, free, number of
// addresses; then the addresses and the signature.
const (
	metaFixed   = 8 + 32 + 8 + 2 + 4 + 1
	metaAddress = 16 + 2
)

// metaDomain keeps a signature over a Meta from being valid elsewhere. The digit is the version.
const metaDomain = "agentbox meta 1\n"

// Sign encodes a Meta, big-endian, followed by its peer's signature. Invalid when it has too many
// addresses.
func (m Meta) Sign(key ed25519.PrivateKey) ([]byte, error) {
	if len(m.Addresses) > MaxAddresses {
		return nil, agentbox.Errorf(agentbox.Invalid, "a peer announces at most %d addresses, not %d", MaxAddresses, len(m.Addresses))
	}
	b := binary.BigEndian.AppendUint64(nil, m.Sequence)
	b = append(append(b, m.Digest[:]...), m.List[:]...)
	b = binary.BigEndian.AppendUint16(b, m.Load)
	b = binary.BigEndian.AppendUint32(b, m.Free)
	b = append(b, byte(len(m.Addresses)))
	for _, a := range m.Addresses {
		ip := a.Addr().As16()
		b = binary.BigEndian.AppendUint16(append(b, ip[:]...), a.Port())
	}
	return append(b, ed25519.Sign(key, append([]byte(metaDomain), b...))...), nil
}

// DecodeMeta reads what Sign wrote, and verifies that the peer with this key signed it; otherwise
// it is Corrupt. Any node of the team may have passed it on. A later build may have more addresses,
// and bytes after them: the first MaxAddresses are used, the rest is covered by the signature and
// passed over.
func DecodeMeta(b []byte, key ed25519.PublicKey) (Meta, error) {
	signed := len(b) - ed25519.SignatureSize
	if signed < metaFixed || signed < metaFixed+int(b[metaFixed-1])*metaAddress {
		return Meta{}, badMeta(key, "it is cut off")
	}
	body, signature := b[:signed], b[signed:]
	if !ed25519.Verify(key, append([]byte(metaDomain), body...), signature) {
		return Meta{}, badMeta(key, "the signature is not its peer's")
	}
	m := Meta{Sequence: binary.BigEndian.Uint64(body), Digest: agentbox.Digest(body[8:40]), List: [8]byte(body[40:48])}
	m.Load, m.Free = binary.BigEndian.Uint16(body[48:]), binary.BigEndian.Uint32(body[50:])
	for rest := body[metaFixed:]; len(m.Addresses) < min(int(body[metaFixed-1]), MaxAddresses); rest = rest[metaAddress:] {
		ip := netip.AddrFrom16([16]byte(rest[:16])).Unmap()
		m.Addresses = append(m.Addresses, netip.AddrPortFrom(ip, binary.BigEndian.Uint16(rest[16:])))
	}
	return m, nil
}

func badMeta(key ed25519.PublicKey, why string) error {
	return agentbox.Errorf(agentbox.Corrupt, "what peer %s announces: %s", identity.PeerOf(key).Short(), why)
}

// virtualAddr is the address of a peer inside memberlist: derived from its PeerID, in a range that
// is never routed (RFC 4193), so that it is the same wherever the peer is.
func virtualAddr(id identity.PeerID) netip.AddrPort {
	var ip [16]byte
	ip[0] = 0xfd
	copy(ip[1:], id[:15])
	return netip.AddrPortFrom(netip.AddrFrom16(ip), 1)
}
