package roster

import (
	"bytes"
	"slices"
	"time"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
)

// Revoke takes a member off the list for good: its key cannot come back, so the machine needs
// another. The members that it added stay, if this machine has the root key. Revoking a member
// again is no error; NotFound for a peer that never was a member, Invalid for this machine itself,
// Conflict when it may not sign that.
func (r *Roster) Revoke(id identity.PeerID) error {
	return r.change(func() ([]identity.Entry, error) {
		m, ok := r.List().Member(id)
		switch {
		case !ok:
			return nil, agentbox.Errorf(agentbox.NotFound, "%s was never a member of the team", id.Short())
		case m.Revoked:
			return nil, nil
		case id == r.self:
			return nil, agentbox.Errorf(agentbox.Invalid, "a machine does not revoke itself").WithHint("agentbox mesh leave")
		}
		return r.entries(m, nil, func(e *identity.Entry) { e.Revoked, e.Expires = true, time.Time{} })
	})
}

// adopt signs with the root key what only one admin signed, so that it stays when that admin goes:
// whether an entry counts depends on whether its signer is an admin now (identity, judge.go). This
// machine has the root key.
func (r *Roster) adopt(admin identity.PeerID) ([]identity.Entry, error) {
	list, root := r.state()
	var out []identity.Entry
	for _, e := range list.Entries() {
		m, _ := list.Member(e.Peer())
		if identity.PeerOf(e.Signer) != admin || e.Peer() == admin {
			continue
		}
		signed, err := r.entry(m, root, func(e *identity.Entry) {
			e.Revoked = m.Revoked
			if m.Left {
				e.Serial = m.Serial // who left stays out: leaving wins
			}
		})
		if err != nil {
			return nil, err
		}
		out = append(out, signed)
	}
	return out, nil
}

// keepsAdminRole reports whether the root still lets a member, which may have left, sign for
// others. Only the machine with the root key can change that, so it is false on all others.
func (r *Roster) keepsAdminRole(id identity.PeerID) bool {
	list, root := r.state()
	return root != nil && slices.ContainsFunc(list.Entries(), func(e identity.Entry) bool {
		return e.Peer() == id && bytes.Equal(e.Signer, list.Root()) && !e.Revoked && slices.Contains(e.Roles, identity.Admin)
	})
}
