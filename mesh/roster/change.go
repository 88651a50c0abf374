package roster

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"slices"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/mesh/identity"
)

// Find is the member that a person means: by PeerID, an unambiguous beginning of one (at least 4
// digits), or name. Former members are found, too. NotFound when there is none, Conflict when there
// are several.
func Find(list identity.List, what string) (identity.Member, error) {
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

// SetRoles makes a member's roles these. NotFound for a peer that is no member, Conflict when this
// machine may not sign that. Of an admin that is one no longer, the members that it added stay.
func (r *Roster) SetRoles(id identity.PeerID, roles []identity.Role) error {
	m, ok := r.List().Member(id)
	if !ok || !m.Active(r.cfg.Now()) {
		return agentbox.Errorf(agentbox.NotFound, "%s is not a member of the team", id.Short())
	}
	wasAdmin := m.Has(identity.Admin)
	next := m
	next.Roles = roles
	key, err := r.signer(m, next.Has(identity.Admin))
	if err != nil {
		return err
	}
	e, err := r.entry(next, key, nil)
	if err != nil {
		return err
	}
	entries := []identity.Entry{e}
	if wasAdmin && !next.Has(identity.Admin) {
		adopted, err := r.adopt(id)
		if err != nil {
			return err
		}
		entries = append(adopted, e)
	}
	return r.merge(entries)
}

// Revoke takes a member off the list for good: its key cannot come back, so the machine needs
// another. The members that it added stay, if this machine has the root key. One that was revoked
// already is no error; NotFound for one that never was a member, Invalid for this machine, Conflict
// when it may not sign that.
func (r *Roster) Revoke(id identity.PeerID) error {
	m, ok := r.List().Member(id)
	switch {
	case !ok:
		return agentbox.Errorf(agentbox.NotFound, "%s was never a member of the team", id.Short())
	case m.Revoked:
		return nil
	case id == r.self:
		return agentbox.Errorf(agentbox.Invalid, "a machine does not revoke itself").WithHint("agentbox mesh leave")
	}
	key, err := r.signer(m, false)
	if err != nil {
		return err
	}
	var entries []identity.Entry
	if m.Has(identity.Admin) {
		if entries, err = r.adopt(id); err != nil {
			return err
		}
	}
	m.Roles = nil
	e, err := r.entry(m, key, func(e *identity.Entry) { e.Revoked, e.Expires = true, time.Time{} })
	if err != nil {
		return err
	}
	return r.merge(append(entries, e))
}

// adopt signs with the root key what only one admin says, so that it stays when that admin goes:
// whether an entry counts depends on whether its signer is an admin now (identity, judge.go).
// Without the root key it gives nothing.
func (r *Roster) adopt(admin identity.PeerID) ([]identity.Entry, error) {
	list := r.List()
	r.mu.Lock()
	root := r.root
	r.mu.Unlock()
	if root == nil {
		return nil, nil
	}
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

// entry signs what a member is from now on, with a serial above all that was said of it, after
// change, which may be nil, has had it.
func (r *Roster) entry(m identity.Member, key ed25519.PrivateKey, change func(*identity.Entry)) (identity.Entry, error) {
	list := r.List()
	e := identity.Entry{
		Team: list.Team(), Key: m.Key, Name: m.Name, Roles: m.Roles, Serial: nextSerial(list, m.ID), Issued: r.cfg.Now(), Expires: r.expiry(m.Roles),
	}
	if change != nil {
		change(&e)
	}
	return e.Sign(key)
}

// Leaving is the signed entry that this machine leaves the team, for the others to hear of. Any
// member may sign that of itself, so leaving takes no admin. NotFound when it is in none. Nothing
// is changed here.
func (r *Roster) Leaving() (identity.Entry, error) {
	me, ok := r.List().Member(r.self)
	if !ok {
		return identity.Entry{}, noTeam()
	}
	return r.entry(me, r.cfg.Key, func(e *identity.Entry) { e.Roles, e.Revoked, e.Expires = nil, true, time.Time{} })
}

// keepLeaving writes down that this machine left, for when it joins the same team again: an admin
// that has not heard of it would not sign anew who is a member, and hear of it then.
func (r *Roster) keepLeaving() error {
	e, err := r.Leaving()
	if err != nil {
		return nil // it was no member: there is nothing to tell
	}
	return durable.WriteJSON(r.leftFile(), e, 0o600)
}

// left is the entry of keepLeaving, as it is sent; nil where this machine never left the team. A
// file that cannot be read is as none: the farewell itself may have arrived.
func (r *Roster) left(team agentbox.Digest) json.RawMessage {
	var e identity.Entry
	if err := durable.ReadJSON(r.leftFile(), &e); err != nil || e.Team != team {
		return nil
	}
	b, err := json.Marshal(e)
	if err != nil {
		return nil
	}
	return b
}

// tookLeft merges what the holder of an invitation brought of its own leaving, before it is added:
// the entry that adds it then has a greater serial.
func (r *Roster) tookLeft(peer identity.PeerID, b json.RawMessage) error {
	if len(b) == 0 {
		return nil
	}
	e, err := identity.DecodeEntry(b)
	if err != nil {
		return err
	}
	if e.Peer() != peer || !bytes.Equal(e.Signer, e.Key) || !e.Revoked {
		return agentbox.Errorf(agentbox.Corrupt, "peer %s brought an entry that is not that it left", peer.Short())
	}
	return r.merge([]identity.Entry{e})
}

// Renew signs what has to be signed anew: members with less than half of their time left, and what
// admins that left had said. It does nothing on a machine that may not sign. It is called every
// hour, and writes only when there is something to sign.
func (r *Roster) Renew() error {
	list := r.List()
	now := r.cfg.Now()
	var entries []identity.Entry
	for _, m := range list.Members() {
		key, err := r.signer(m, false)
		if err != nil {
			continue
		}
		switch {
		// The role goes with the admin, which its own entry cannot say: only the root takes it.
		case m.Left && r.stillAdmin(list, m.ID):
			adopted, err := r.adopt(m.ID)
			if err != nil {
				return err
			}
			e, err := r.entry(m, key, func(e *identity.Entry) { e.Roles, e.Serial = nil, m.Serial })
			if err != nil {
				return err
			}
			entries = append(append(entries, adopted...), e)
		case m.Active(now) && !m.Expires.IsZero() && m.Expires.Sub(now) < memberFor/2 && m.ID != r.self:
			e, err := r.entry(m, key, nil)
			if err != nil {
				return err
			}
			entries = append(entries, e)
		}
	}
	if len(entries) == 0 {
		return nil
	}
	return r.merge(entries)
}

// stillAdmin tells whether the root still lets a member that left sign for others. Only the machine
// with the root key can do something about that, so it is false on all others.
func (r *Roster) stillAdmin(list identity.List, id identity.PeerID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.root == nil {
		return false
	}
	for _, e := range list.Entries() {
		if e.Peer() == id && bytes.Equal(e.Signer, list.Root()) && !e.Revoked {
			if slices.Contains(e.Roles, identity.Admin) {
				return true
			}
		}
	}
	return false
}
