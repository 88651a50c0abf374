package roster

import (
	"bytes"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/mesh/identity"
)

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
