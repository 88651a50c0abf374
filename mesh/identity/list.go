package identity

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"agentbox/agentbox"
)

// Bounds of a list. Former members count too: their entries keep them from coming back.
const (
	MaxEntries = 4096
	MaxList    = 4 << 20 // bytes of its encoded form
)

// List is a team's member list. It is an immutable value: With returns a new one. The zero List
// belongs to no team and admits nobody.
type List struct {
	// root is the team's public key; nil for the zero List.
	root    ed25519.PublicKey
	entries map[slot]Entry
	members map[PeerID]Member // as judged
	// digest is what Digest returns; nil for the zero List. Every gossip packet with news needs it,
	// and it is a hash over all entries.
	digest func() agentbox.Digest
}

// slot holds one entry: what one signer states about one member.
type slot struct{ member, signer PeerID }

// Member is what a list says of one peer, with all entries considered. The zero Member is nobody,
// and not Active.
type Member struct {
	ID    PeerID
	Key   ed25519.PublicKey
	Name  string
	Roles []Role
	// Serial and Issued are those of the entry that counts. Issued is for people.
	Serial  uint64
	Issued  time.Time
	Expires time.Time // zero: never
	Revoked bool      // for good
	Left    bool      // by its own will; an admin may add it again
	// signer signed the entry that counts.
	signer PeerID
}

// Has reports whether the member has a role.
func (m Member) Has(r Role) bool { return slices.Contains(m.Roles, r) }

// Expired reports whether the membership ended before t.
func (m Member) Expired(t time.Time) bool { return !m.Expires.IsZero() && !t.Before(m.Expires) }

// Active reports whether the peer is a member at t, which is a time of the reader's own clock.
func (m Member) Active(t time.Time) bool {
	return !m.ID.IsZero() && !m.Revoked && !m.Left && !m.Expired(t)
}

// TeamOf names the team of a root key: the SHA-256 of the public key.
func TeamOf(root ed25519.PublicKey) agentbox.Digest { return sha256.Sum256(root) }

// NewList returns the list of a team without members.
func NewList(root ed25519.PublicKey) List {
	return evaluate(root, map[slot]Entry{})
}

// Team names the team; zero for none.
func (l List) Team() agentbox.Digest {
	if l.root == nil {
		return agentbox.Digest{}
	}
	return TeamOf(l.root)
}

// Root is the team's root public key.
func (l List) Root() ed25519.PublicKey { return l.root }

// Member finds a peer, revoked and former ones included; false for a peer that was never on the
// list.
func (l List) Member(id PeerID) (Member, bool) {
	m, ok := l.members[id]
	return m, ok
}

// Admits reports whether a peer is a member now, by the reader's clock.
func (l List) Admits(id PeerID, now time.Time) bool { return l.members[id].Active(now) }

// Members lists everybody who ever was on the list, sorted by PeerID.
func (l List) Members() []Member {
	return slices.SortedFunc(maps.Values(l.members), func(a, b Member) int { return a.ID.Compare(b.ID) })
}

// Serial is a number that grows with every change of the list, for people. Compare lists by Digest.
func (l List) Serial() uint64 {
	var n uint64
	for _, e := range l.entries {
		n += e.Serial
	}
	return n
}

// Digest is equal for two lists exactly when their entries are: it is the hash of the encoded list.
func (l List) Digest() agentbox.Digest {
	if l.digest == nil {
		return l.sum()
	}
	return l.digest()
}

func (l List) sum() agentbox.Digest {
	b, err := l.Encode()
	if err != nil {
		return agentbox.Digest{}
	}
	return sha256.Sum256(b)
}

// Entries lists every entry in the order of the encoded form.
func (l List) Entries() []Entry {
	return slices.SortedFunc(maps.Values(l.entries), func(a, b Entry) int {
		return cmp.Or(a.Peer().Compare(b.Peer()), PeerOf(a.Signer).Compare(PeerOf(b.Signer)))
	})
}

// listJSON is the encoded form.
type listJSON struct {
	Root    []byte  `json:"root"`
	Entries entries `json:"entries"`
}

// entries are those of a list: MaxEntries at most.
type entries []Entry

// UnmarshalJSON reads what the encoder writes of a slice.
func (e *entries) UnmarshalJSON(b []byte) (err error) {
	*e, err = DecodeArray[Entry](b, MaxEntries)
	return err
}

// Encode returns the only form that a list has: JSON with the entries in order.
func (l List) Encode() ([]byte, error) {
	return json.Marshal(listJSON{Root: l.root, Entries: l.Entries()})
}

// DecodeList reads what Encode wrote, for one team; a zero team accepts any. It verifies every
// signature, and refuses entries that their signer had no right to sign: such a list is Corrupt, as
// a peer that follows the rules has none.
func DecodeList(b []byte, team agentbox.Digest) (List, error) {
	if len(b) > MaxList {
		return List{}, corrupt("a member list has at most %d bytes, not %d", MaxList, len(b))
	}
	var in listJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return List{}, corrupt("member list: %w", err)
	}
	if len(in.Root) != ed25519.PublicKeySize || !team.IsZero() && TeamOf(in.Root) != team {
		return List{}, corrupt("member list: of another team")
	}
	l, err := NewList(in.Root).With(in.Entries...)
	if err != nil {
		return List{}, err
	}
	// One form only: nobody signs what two readers could understand differently.
	if same, err := l.Encode(); err != nil || !bytes.Equal(same, b) {
		return List{}, corrupt("member list: not in the form in which lists are written")
	}
	return l, nil
}

// With returns the list with more entries; l stays as it is. Entries that are older than what is
// there, or that their signer may not sign, are left out without an error: the list of a peer that
// does not know yet that an admin was revoked has them. A bad signature or an entry of another team
// is Corrupt, too many entries NoSpace. The order of entries does not matter.
func (l List) With(entries ...Entry) (List, error) {
	if l.root == nil {
		return List{}, agentbox.Errorf(agentbox.Invalid, "there is no team")
	}
	all := make(map[slot]Entry, len(l.entries)+len(entries))
	maps.Copy(all, l.entries)
	for _, e := range entries {
		s := slot{member: e.Peer(), signer: PeerOf(e.Signer)}
		old, known := all[s]
		if known && bytes.Equal(old.Signature, e.Signature) {
			continue
		}
		if e.Team != l.Team() {
			return List{}, corrupt("member %s: of another team", e.Peer().Short())
		}
		if err := e.Verify(); err != nil {
			return List{}, err
		}
		if !known || newer(e, old) {
			all[s] = e
		}
	}
	out := evaluate(l.root, all)
	if len(out.entries) > MaxEntries {
		return List{}, agentbox.Errorf(agentbox.NoSpace, "a member list has at most %d entries", MaxEntries).
			WithHint("start another team: agentbox mesh init")
	}
	return out, nil
}

// newer reports whether an entry replaces an older one of the same signer about the same member. A
// revocation is final. Ties are broken by the bytes of the signature, so that all peers break them
// alike.
//
// Leaving is not final, as the member may be added again: there the serial number alone decides.
func newer(e, old Entry) bool {
	forGood := !bytes.Equal(e.Signer, e.Key)
	if forGood && e.Revoked != old.Revoked {
		return e.Revoked
	}
	return cmp.Or(cmp.Compare(e.Serial, old.Serial), bytes.Compare(e.Signature, old.Signature)) > 0
}
