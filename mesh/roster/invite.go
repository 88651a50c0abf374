package roster

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"path/filepath"
	"slices"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// invitation is one that this machine made, as it is in invites.json. Whether it is over is for
// this machine's clock to say.
type invitation struct {
	Secret  []byte          `json:"secret"`
	Expires time.Time       `json:"expires"`
	Roles   []identity.Role `json:"roles,omitempty"`
	By      identity.PeerID `json:"by,omitzero"` // who took it up
}

// maxInvites bounds the open ones: each is a protocol that the node answers to strangers.
const maxInvites = 64

// id is how the machine that is invited asks for it: a hash, so that who hears it cannot take it
// up.
func (i invitation) id() string {
	return wire.GuestID(sha256.Sum256(append([]byte("agentbox invitation 1\n"), i.Secret...)))
}

// proof is what only a side that has the secret can say, on one connection only: binding is that
// connection's (wire.GuestHandler). what tells the two directions apart, so that neither can answer
// with what it was sent.
func (i invitation) proof(what string, binding []byte) []byte {
	h := hmac.New(sha256.New, i.Secret)
	h.Write([]byte("agentbox " + what + " 1\n"))
	h.Write(binding)
	return h.Sum(nil)
}

func (r *Roster) invitesFile() string { return filepath.Join(r.cfg.Dir, "invites.json") }

// readInvites reads the invitations; no file is none.
func (r *Roster) readInvites() error {
	if err := durable.ReadJSON(r.invitesFile(), &r.invites); err != nil {
		return agentbox.Errorf(agentbox.Corrupt, "%w", err).WithHint("remove it: open invitations end")
	}
	return nil
}

// writeInvites replaces the file, readable by this user alone: who has a secret can join.
// r.changing is held.
func (r *Roster) writeInvites(list []invitation) error {
	return durable.WriteJSON(r.invitesFile(), list, 0o600)
}

// Invite makes an invitation that one machine can take up until it expires, to become a member with
// these roles. addresses, as host:port, are where this machine is reached. NotFound without a team,
// Conflict when this machine is no admin, may not give the role, or has too many open ones. It is
// on disk when Invite returns.
func (r *Roster) Invite(ttl time.Duration, roles []identity.Role, addresses []string) (identity.Invite, error) {
	if _, err := r.signer(identity.Member{}, slices.Contains(roles, identity.Admin)); err != nil {
		return identity.Invite{}, err
	}
	secret := identity.NewSecret()
	i := invitation{Secret: secret[:], Expires: r.cfg.Now().Add(ttl).UTC().Truncate(time.Second), Roles: roles}
	r.changing.Lock()
	defer r.changing.Unlock()
	open := r.open(r.cfg.Now())
	if len(open) >= maxInvites {
		return identity.Invite{}, agentbox.Errorf(agentbox.Conflict, "there are %d open invitations", len(open)).WithHint("wait until some expire")
	}
	open = append(open, i)
	if err := r.writeInvites(open); err != nil {
		return identity.Invite{}, err
	}
	r.mu.Lock()
	r.invites = open
	node := r.node
	r.mu.Unlock()
	if node != nil {
		node.HandleGuest(i.id(), r.guest(i.id()))
	}
	return identity.Invite{Team: r.List().Team(), Secret: secret, Expires: i.Expires, Addresses: addresses}, nil
}

// open lists the invitations that are not over, taken up or not: one that was taken up is still
// answered, with that it was.
func (r *Roster) open(now time.Time) []invitation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.invites), func(i invitation) bool { return !now.Before(i.Expires) })
}

// Answer makes a node the one where invitations are taken up and lists exchanged; nil: none is. The
// node of before answers no more.
func (r *Roster) Answer(node *wire.Node) {
	r.mu.Lock()
	old := r.node
	r.node = node
	invites := slices.Clone(r.invites)
	r.mu.Unlock()
	for _, i := range invites {
		if old != nil {
			old.HandleGuest(i.id(), nil)
		}
		if node != nil {
			node.HandleGuest(i.id(), r.guest(i.id()))
		}
	}
	if old != nil {
		old.Handle(wire.Roster, nil)
	}
	if node != nil {
		node.Handle(wire.Roster, r.serve)
	}
}

// EndInvites stops answering invitations that are over. It is called now and then; until then the
// answer is that they have expired. The file keeps them until the next change.
func (r *Roster) EndInvites() {
	now := r.cfg.Now()
	r.changing.Lock()
	defer r.changing.Unlock()
	r.mu.Lock()
	var over []invitation
	r.invites = slices.DeleteFunc(r.invites, func(i invitation) bool {
		if !now.Before(i.Expires) {
			over = append(over, i)
			return true
		}
		return false
	})
	node := r.node
	r.mu.Unlock()
	for _, i := range over {
		if node != nil {
			node.HandleGuest(i.id(), nil)
		}
	}
}

// take uses up an invitation for one peer, on disk first. The same peer may take it again: its
// first answer may have been lost. False when another has it, or it is over. r.changing is held.
func (r *Roster) take(id string, by identity.PeerID) (invitation, bool, error) {
	open := r.open(r.cfg.Now())
	at := slices.IndexFunc(open, func(i invitation) bool { return i.id() == id })
	if at < 0 || !open[at].By.IsZero() && open[at].By != by {
		return invitation{}, false, nil
	}
	open[at].By = by
	if err := r.writeInvites(open); err != nil {
		return invitation{}, false, err
	}
	r.mu.Lock()
	r.invites = open
	r.mu.Unlock()
	return open[at], true, nil
}

// Messages of a join: the guest proves that it has the secret and says who it is; the machine that
// invited proves the same, and answers with the list. Neither says anything before the other's
// proof but what is worth nothing without the secret.
type (
	joinRequest struct {
		Proof []byte          `json:"proof"`
		Key   []byte          `json:"key"`
		Name  string          `json:"name"`
		Left  json.RawMessage `json:"left,omitempty"` // the entry by which it left this team before
	}
	joinAnswer struct {
		Proof []byte          `json:"proof"`
		List  json.RawMessage `json:"list,omitempty"`
		Used  bool            `json:"used,omitempty"` // by another machine
	}
)

// maxJoin bounds a request in bytes; joinTime both sides' patience.
const (
	maxJoin  = 4 << 10
	joinTime = 20 * time.Second
)

// guest serves the holder of an invitation, for wire.Node.HandleGuest. Nothing is said before the
// proof of the secret; a guest that has none learns nothing but that the connection ends.
func (r *Roster) guest(id string) wire.GuestHandler {
	return func(ctx context.Context, c wire.Conn, binding []byte) {
		ctx, cancel := context.WithTimeout(ctx, joinTime)
		defer cancel()
		s, err := c.AcceptStream(ctx)
		if err != nil {
			return
		}
		defer s.Abort()
		_ = s.SetDeadline(time.Now().Add(joinTime))
		var req joinRequest
		if err := wire.ReadMessage(s, &req, maxJoin); err != nil {
			return
		}
		answer, err := r.welcome(id, c.Peer(), req, binding)
		if err != nil {
			r.cfg.Log.Warn("mesh: an invitation was not taken up", "peer", c.Peer().Short(), "error", err)
			return
		}
		if wire.WriteMessage(s, answer, identity.MaxList+maxJoin) == nil {
			_ = s.Close()
			<-ctx.Done() // the guest closes when it has everything
		}
	}
}

// welcome adds the holder of an invitation to the list. The proof is looked at before the
// invitation is used up, so a stranger uses up none. The order after that is: used up, on disk;
// then a member. A crash in between costs an invitation, which the same machine may take again; the
// other order could let two in.
func (r *Roster) welcome(id string, peer identity.PeerID, req joinRequest, binding []byte) (joinAnswer, error) {
	var i invitation
	for _, o := range r.open(r.cfg.Now()) {
		if o.id() == id {
			i = o
		}
	}
	if i.Secret == nil || !hmac.Equal(req.Proof, i.proof("join", binding)) || identity.PeerOf(req.Key) != peer {
		return joinAnswer{}, agentbox.Errorf(agentbox.Conflict, "it did not prove that it has the secret")
	}
	r.changing.Lock()
	i, ok, err := r.take(id, peer)
	r.changing.Unlock()
	if err != nil {
		return joinAnswer{}, err
	}
	if !ok {
		for _, o := range r.open(r.cfg.Now()) {
			if o.id() == id {
				return joinAnswer{Proof: o.proof("welcome", binding), Used: true}, nil
			}
		}
		return joinAnswer{}, agentbox.Errorf(agentbox.Conflict, "the invitation has expired")
	}
	if err := r.tookLeft(peer, req.Left); err != nil {
		return joinAnswer{}, err
	}
	if err := r.add(identity.Member{ID: peer, Key: req.Key, Name: req.Name, Roles: i.Roles}); err != nil {
		return joinAnswer{}, err
	}
	list, err := r.List().Encode()
	return joinAnswer{Proof: i.proof("welcome", binding), List: list}, err
}

// add signs that a machine is a member, unless it is one. Conflict when it was revoked: that is for
// good.
func (r *Roster) add(m identity.Member) error {
	old, known := r.List().Member(m.ID)
	switch {
	case known && old.Revoked:
		return agentbox.Errorf(agentbox.Conflict, "%s was revoked", m.ID.Short())
	case known && old.Active(r.cfg.Now()):
		return nil
	}
	key, err := r.signer(old, m.Has(identity.Admin))
	if err != nil {
		return err
	}
	var entries []identity.Entry
	if r.stillAdmin(r.List(), m.ID) && !m.Has(identity.Admin) {
		// It was an admin, left, and comes back as none: what it signed must not go with the role.
		if entries, err = r.adopt(m.ID); err != nil {
			return err
		}
	}
	e, err := r.entry(m, key, nil)
	if err != nil {
		return err
	}
	return r.merge(append(entries, e))
}
