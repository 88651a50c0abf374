package roster

import (
	"crypto/ed25519"
	"slices"

	"agentbox/agentbox"
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
