package roster

import (
	"bytes"
	"crypto/ed25519"
	"slices"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/mesh/identity"
)

// Find returns the member that a person means: by PeerID, an unambiguous prefix of one (at least 4
// digits), or name. It finds former members, too. NotFound for no match or no team, Conflict for
// several matches.
func (r *Roster) Find(what string) (identity.Member, error) {
	list := r.List()
	if list.Team().IsZero() {
		return identity.Member{}, NoTeam()
	}
	var found []identity.Member
	for _, m := range list.Members() {
		id := m.ID.String()
		if id == what {
			return m, nil
		}
		if m.Name == what || len(what) >= 4 && len(what) < len(id) && id[:len(what)] == what {
			found = append(found, m)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return identity.Member{}, agentbox.Errorf(agentbox.NotFound, "no member %.80q", what).WithHint("agentbox mesh peers --all shows them")
	}
	return identity.Member{}, agentbox.Errorf(agentbox.Conflict, "%d members are called %.80q", len(found), what).
		WithHint("name one by its PeerID: agentbox mesh peers shows them")
}

// SetRoles gives a member these roles and no others. NotFound for a peer that is no member,
// Conflict when this machine may not sign that. When an admin loses that role, the members that it
// added stay.
func (r *Roster) SetRoles(id identity.PeerID, roles []identity.Role) error {
	return r.change(func() ([]identity.Entry, error) {
		m, ok := r.List().Member(id)
		if !ok || !m.Active(r.cfg.Now()) {
			return nil, agentbox.Errorf(agentbox.NotFound, "%s is not a member of the team", id.Short())
		}
		return r.entries(m, roles, nil)
	})
}

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

// entries signs the roles that a member has from now on, after change, which may be nil, has edited
// the entry. Where the member stops being an admin, the entries that only it signed are adopted.
// The errors are those of signer and entry.
func (r *Roster) entries(m identity.Member, roles []identity.Role, change func(*identity.Entry)) (signed []identity.Entry, err error) {
	admin := slices.Contains(roles, identity.Admin)
	key, err := r.signer(m, admin)
	if err != nil {
		return nil, err
	}
	if !admin && r.keepsAdminRole(m.ID) {
		if signed, err = r.adopt(m.ID); err != nil {
			return nil, err
		}
	}
	m.Roles = roles
	e, err := r.entry(m, key, change)
	return append(signed, e), err
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

// entry signs what a member is from now on, after change, which may be nil, has edited the entry.
// Its serial number makes it count. Conflict when another signer has used up the numbers and it
// would not.
func (r *Roster) entry(m identity.Member, key ed25519.PrivateKey, change func(*identity.Entry)) (identity.Entry, error) {
	list := r.List()
	serial, counts := nextSerial(list, m.Key, public(key))
	e := identity.Entry{
		Team: list.Team(), Key: m.Key, Name: m.Name, Roles: m.Roles, Serial: serial, Issued: r.cfg.Now(), Expires: r.expiry(m.Roles),
	}
	if change != nil {
		change(&e)
	}
	if !counts && !e.Revoked {
		return e, agentbox.Errorf(agentbox.Conflict, "another admin used up the serial numbers of %s", m.ID.Short()).
			WithHint("only the machine of `mesh init` can change it now")
	}
	return e.Sign(key)
}

// leaving returns the signed entry that this machine leaves the team. Any member may sign that
// about itself, so leaving takes no admin. NotFound without a team. It changes nothing here.
func (r *Roster) leaving() (identity.Entry, error) {
	me, ok := r.List().Member(r.self)
	if !ok {
		return identity.Entry{}, NoTeam()
	}
	return r.entry(me, r.cfg.Key, func(e *identity.Entry) { e.Roles, e.Revoked, e.Expires = nil, true, time.Time{} })
}

// storeLeaving writes to disk that this machine left, for when it joins the same team again: an
// admin that has not heard of it would see no reason to sign the membership anew, and hear of the
// leaving afterwards.
func (r *Roster) storeLeaving() error {
	e, err := r.leaving()
	if err != nil {
		return nil // it was no member: there is nothing to tell
	}
	return durable.WriteJSON(r.leftFile(), e, 0o600)
}

// readLeaving returns the entry of storeLeaving; nil where this machine never left the team. A file
// that cannot be read counts as none: the others may know of the leaving already.
func (r *Roster) readLeaving(team agentbox.Digest) *identity.Entry {
	var e identity.Entry
	if err := durable.ReadJSON(r.leftFile(), &e); err != nil || e.Team != team {
		return nil
	}
	return &e
}

// mergeLeaving merges the entry by which the holder of an invitation left before. It is called
// before the holder is added, whose new entry then has a greater serial number.
func (r *Roster) mergeLeaving(peer identity.PeerID, e *identity.Entry) error {
	switch {
	case e == nil:
		return nil
	case e.Peer() != peer || !bytes.Equal(e.Signer, e.Key) || !e.Revoked:
		return agentbox.Errorf(agentbox.Corrupt, "peer %s brought an entry that is not that it left", peer.Short())
	}
	return r.merge(*e)
}

// Renew signs again what needs it: members with less than half of their time left, and the entries
// of admins that left. It does nothing on a machine that may not sign. It is called every hour, and
// writes only when there is something to sign.
func (r *Roster) Renew() error {
	return r.change(func() (all []identity.Entry, err error) {
		for _, m := range r.List().Members() {
			signed, err := r.renewed(m)
			switch agentbox.CodeOf(err) {
			case agentbox.NotFound, agentbox.Conflict: // not ours to sign
			default:
				if err != nil {
					return nil, err
				}
				all = append(all, signed...)
			}
		}
		return all, nil
	})
}

// renewed signs again what needs it of one member; nothing, as a rule.
func (r *Roster) renewed(m identity.Member) ([]identity.Entry, error) {
	now := r.cfg.Now()
	switch {
	// The role goes with the admin, which its own entry cannot say: only the root takes it.
	case m.Left && r.keepsAdminRole(m.ID):
		return r.entries(m, nil, func(e *identity.Entry) { e.Serial = m.Serial })
	case m.Active(now) && !m.Expires.IsZero() && m.Expires.Sub(now) < memberLifetime/2 && m.ID != r.self:
		return r.entries(m, m.Roles, nil)
	}
	return nil, nil
}

// keepsAdminRole reports whether the root still lets a member, which may have left, sign for
// others. Only the machine with the root key can change that, so it is false on all others.
func (r *Roster) keepsAdminRole(id identity.PeerID) bool {
	list, root := r.state()
	return root != nil && slices.ContainsFunc(list.Entries(), func(e identity.Entry) bool {
		return e.Peer() == id && bytes.Equal(e.Signer, list.Root()) && !e.Revoked && slices.Contains(e.Roles, identity.Admin)
	})
}
