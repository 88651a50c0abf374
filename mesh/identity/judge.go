package identity

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"slices"
	"sync"
)

// evaluate keeps the entries whose signers had the right to sign them, and derives the state of
// each member from them. It depends on the entries alone, so peers that have the same ones agree.
//
// It is one pass over all entries, not a history: whether an entry counts depends on who the root
// says is an admin now. So revoking an admin also voids what that admin alone signed, and
// roster.adopt signs that again first.
func evaluate(root ed25519.PublicKey, entries map[slot]Entry) List {
	l := List{root: root, entries: map[slot]Entry{}, members: map[PeerID]Member{}}
	rootID := PeerOf(root)
	admins := map[PeerID]bool{}
	for s, e := range entries {
		if s.signer == rootID && !e.Revoked && slices.Contains(e.Roles, Admin) {
			admins[s.member] = true
		}
	}
	for s, e := range entries {
		if permitted(s, e, rootID, admins) {
			l.entries[s] = e
		}
	}
	added := map[PeerID]bool{} // by the root or an admin
	for s, e := range l.entries {
		l.members[s.member] = l.members[s.member].with(e, rootID)
		added[s.member] = added[s.member] || s.signer == rootID || s.signer != s.member
	}
	// A member that only said that it left was never on the list.
	for id := range l.members {
		if !added[id] {
			delete(l.members, id)
			delete(l.entries, slot{member: id, signer: id})
		}
	}
	l.digest = sync.OnceValue(l.sum)
	return l
}

// permitted reports whether the signer of an entry had the right to sign it. The root may sign
// anything; an admin may sign for members that are no admins, without making them admins; everybody
// may sign that they leave.
func permitted(s slot, e Entry, root PeerID, admins map[PeerID]bool) bool {
	switch {
	case s.signer == root:
		return true
	case s.signer == s.member:
		return e.Revoked
	}
	return admins[s.signer] && !admins[s.member] && !slices.Contains(e.Roles, Admin)
}

// with adds an entry to what others state of the same member, in any order.
func (m Member) with(e Entry, root PeerID) Member {
	self := bytes.Equal(e.Signer, e.Key)
	revoked := m.Revoked || e.Revoked && !self
	next := Member{
		ID: e.Peer(), Key: e.Key, Name: e.Name, Roles: e.Roles, Serial: e.Serial, Issued: e.Issued, Expires: e.Expires,
		Left: e.Revoked && self, signer: PeerOf(e.Signer),
	}
	if !m.ID.IsZero() && m.rank(root, next) > 0 {
		next = m
	}
	next.Revoked = revoked
	return next
}

// rank orders what two signers state about a member: by serial number, then leaving first, then the
// root, then the greater signer.
func (m Member) rank(root PeerID, n Member) int {
	return cmp.Or(
		cmp.Compare(m.Serial, n.Serial),
		cmp.Compare(boolToInt(m.Left), boolToInt(n.Left)),
		cmp.Compare(boolToInt(m.signer == root), boolToInt(n.signer == root)),
		m.signer.Compare(n.signer),
	)
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
