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

// List is a team's member list: a value that is never changed. With adds entries and gives another.
// The zero List is of no team and admits nobody.
type List struct {
	// root is the team's public key; nil for the zero List.
	root    ed25519.PublicKey
	entries map[slot]Entry
	members map[PeerID]Member // as judged
	// digest is what Digest gives; nil for the zero List. It is wanted for every packet of gossip that
	// says something new, and takes a hash of all entries.
	digest func() agentbox.Digest
}

// slot has one entry: what one signer says of one member.
type slot struct{ member, signer PeerID }

// Member is what a list says of one peer, all entries considered. The zero Member is nobody, and
// not Active.
type Member struct {
	ID    PeerID
	Key   ed25519.PublicKey
	Name  string
	Roles []Role
	// Serial is that of the entry that counts, Issued its date, for people.
	Serial  uint64
	Issued  time.Time
	Expires time.Time // zero: never
	Revoked bool      // for good
	Left    bool      // by its own will; an admin may add it again
	// signer is whose entry that is.
	signer PeerID
}

// Has tells whether the member has a role.
func (m Member) Has(r Role) bool { return slices.Contains(m.Roles, r) }

// Expired tells whether the membership ended before t.
func (m Member) Expired(t time.Time) bool { return !m.Expires.IsZero() && !t.Before(m.Expires) }

// Active tells whether the peer is a member at t, by the reader's own clock.
func (m Member) Active(t time.Time) bool {
	return !m.ID.IsZero() && !m.Revoked && !m.Left && !m.Expired(t)
}

// TeamOf names the team of a root key: the SHA-256 of the public key.
func TeamOf(root ed25519.PublicKey) agentbox.Digest { return sha256.Sum256(root) }

// NewList is the list of a team before anybody is on it.
func NewList(root ed25519.PublicKey) List {
	return judge(root, map[slot]Entry{})
}

// Team names the team, zero for none.
func (l List) Team() agentbox.Digest {
	if l.root == nil {
		return agentbox.Digest{}
	}
	return TeamOf(l.root)
}

// Root is the public key that the team stands on.
func (l List) Root() ed25519.PublicKey { return l.root }

// Member finds a peer, revoked and former ones too; false for one that was never on the list.
func (l List) Member(id PeerID) (Member, bool) {
	m, ok := l.members[id]
	return m, ok
}

// Admits tells whether a peer is a member now, by the reader's clock.
func (l List) Admits(id PeerID, now time.Time) bool { return l.members[id].Active(now) }

// Members lists everybody who ever was on the list, by PeerID.
func (l List) Members() []Member {
	return slices.SortedFunc(maps.Values(l.members), func(a, b Member) int { return a.ID.Compare(b.ID) })
}

// Serial is a number that grows with every change of the list, for people. Whether two lists are
// the same is what Digest says.
func (l List) Serial() uint64 {
	var n uint64
	for _, e := range l.entries {
		n += e.Serial
	}
	return n
}

// Digest is the same for two lists exactly when their entries are. It is that of the encoded list.
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

// Entries lists every entry in the order in which they are encoded.
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

// Encode gives the one form that a list has: JSON with the entries in order.
func (l List) Encode() ([]byte, error) {
	return json.Marshal(listJSON{Root: l.root, Entries: l.Entries()})
}

// DecodeList reads what Encode wrote, of a team; zero is any. It verifies every signature, and takes
// nothing that its signer had no right to say: such a list is Corrupt, as a peer that follows the
// rules has none.
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

// With gives the list with more entries; l stays as it is. Entries that say less than what is
// there, or that their signer may not sign, are left out without an error: a list of a peer that
// does not know yet that an admin was revoked has them. A bad signature or another team's entry is
// Corrupt, too many entries NoSpace. The order of entries does not matter.
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
	out := judge(l.root, all)
	if len(out.entries) > MaxEntries {
		return List{}, agentbox.Errorf(agentbox.NoSpace, "a member list has at most %d entries", MaxEntries).
			WithHint("start another team: agentbox mesh init")
	}
	return out, nil
}

// newer orders what one signer says of one member. A revocation is for good. Ties are broken by the
// bytes, so that all peers break them alike.
//
// That a member left is not for good: it may be added again, so there the serial alone decides.
func newer(e, old Entry) bool {
	forGood := !bytes.Equal(e.Signer, e.Key)
	if forGood && e.Revoked != old.Revoked {
		return e.Revoked
	}
	return cmp.Or(cmp.Compare(e.Serial, old.Serial), bytes.Compare(e.Signature, old.Signature)) > 0
}
