package roster

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"slices"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// invitation is one that this machine made (invites.json), and whose expiry its clock decides.
type invitation struct {
	Secret  []byte          `json:"secret"`
	Expires time.Time       `json:"expires"`
	Roles   []identity.Role `json:"roles,omitempty"`
	By      identity.PeerID `json:"by,omitzero"` // who took it up
}

// maxInvites bounds the open ones: the node answers strangers for each of them.
const maxInvites = 64

// service is the name under which the invited machine asks for it: a hash, so that a listener
// cannot use the invitation.
func (i invitation) service() wire.Service {
	hash := sha256.Sum256(append([]byte("agentbox invitation 1\n"), i.Secret...))
	return wire.GuestService(hex.EncodeToString(hash[:16]))
}

// proof is what only a side with the secret can compute, for one connection only: binding is that
// connection's (wire.Conn.Binding). what differs between the two directions, so that neither side
// can answer with what it received.
func (i invitation) proof(what string, binding []byte) []byte {
	h := hmac.New(sha256.New, i.Secret)
	h.Write([]byte("agentbox " + what + " 1\n"))
	h.Write(binding)
	return h.Sum(nil)
}

func (r *Roster) invitesFile() string { return filepath.Join(r.cfg.Dir, "invites.json") }

func (r *Roster) readInvites() error {
	if err := durable.ReadJSON(r.invitesFile(), &r.invites); err != nil {
		return agentbox.Classify(agentbox.Corrupt, "%w", err).WithHint("remove it: open invitations end")
	}
	return nil
}

// storeInvites replaces the invitations, on disk first, in a file that only this user can read: a
// secret is enough to join. The caller holds r.changing.
func (r *Roster) storeInvites(list []invitation) error {
	if err := durable.WriteJSON(r.invitesFile(), list, 0o600); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.invites = list
	return nil
}

// Invite makes an invitation that one machine can use until it expires, to become a member with
// these roles. addresses, as host:port, are where this machine is reached. NotFound without a team,
// Conflict when this machine is no admin, may not give the role, or has too many open ones. The
// invitation is on disk when Invite returns.
func (r *Roster) Invite(ttl time.Duration, roles []identity.Role, addresses []string) (identity.Invite, error) {
	if _, err := r.signer(identity.Member{}, slices.Contains(roles, identity.Admin)); err != nil {
		return identity.Invite{}, err
	}
	secret := identity.NewSecret()
	i := invitation{Secret: secret[:], Expires: r.cfg.Now().Add(ttl).UTC().Truncate(time.Second), Roles: roles}
	r.changing.Lock()
	defer r.changing.Unlock()
	open := r.openInvites(r.cfg.Now())
	if len(open) >= maxInvites {
		return identity.Invite{}, agentbox.Errorf(agentbox.Conflict, "there are %d open invitations", len(open)).WithHint("wait until some expire")
	}
	if err := r.storeInvites(append(open, i)); err != nil {
		return identity.Invite{}, err
	}
	return identity.Invite{Team: r.List().Team(), Secret: secret, Expires: i.Expires, Addresses: addresses}, nil
}

// openInvites lists the invitations that have not expired, used or not: the holder of a used one
// gets the answer that it was used.
func (r *Roster) openInvites(now time.Time) []invitation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.invites), func(i invitation) bool { return !now.Before(i.Expires) })
}

// Answer makes a node serve invitations and the exchange of lists.
func (r *Roster) Answer(node *wire.Node) {
	node.HandleGuests(func(s wire.Service) wire.Handler { return r.guests(node, s) })
	node.Handle(wire.Roster, wire.AnswerHandler(maxMessage, r.serve))
}

// guests serves the holders of open invitations. Nothing is sent before the secret is proved; a
// guest without it learns only that the stream ends. The node knows where one is that became a member: it may
// not know where we are, if it was killed after it stored the list.
func (r *Roster) guests(node *wire.Node, s wire.Service) wire.Handler {
	if !slices.ContainsFunc(r.openInvites(r.cfg.Now()), func(i invitation) bool { return i.service() == s }) {
		return nil
	}
	return wire.AnswerHandler(maxJoin, func(c *wire.Conn, req joinRequest) (any, error) {
		answer, err := r.admit(s, c, req)
		if err != nil {
			r.cfg.Log.Warn("mesh: a join by invitation failed", "peer", c.Peer().Short(), "error", err)
		}
		node.AddAddresses(c.Peer(), c.Remote()) // of no member it ignores them
		return answer, err
	})
}

// consume uses up an invitation for one peer that proved the secret, on disk first. The same peer
// may use it again, as its first answer may have been lost. The result says who used it, which may
// be another peer. Conflict when it has expired or there is no proof; a stranger uses up none.
func (r *Roster) consume(s wire.Service, by identity.PeerID, proved func(invitation) bool) (invitation, error) {
	r.changing.Lock()
	defer r.changing.Unlock()
	open := r.openInvites(r.cfg.Now())
	at := slices.IndexFunc(open, func(i invitation) bool { return i.service() == s })
	switch {
	case at < 0:
		return invitation{}, agentbox.Errorf(agentbox.Conflict, "the invitation has expired")
	case !proved(open[at]):
		return invitation{}, agentbox.Errorf(agentbox.Conflict, "it did not prove that it has the secret")
	case !open[at].By.IsZero():
		return open[at], nil
	}
	open[at].By = by
	return open[at], r.storeInvites(open)
}

// Messages of a join. The guest proves that it has the secret and says who it is; the machine
// that invited proves the same and answers with the list. Before the other's proof, neither
// sends anything that is of use without the secret.
type (
	joinRequest struct {
		Proof []byte `json:"proof"`
		Key   []byte `json:"key"`
		Name  string `json:"name"`
		// Left is the entry by which it left this team before, nil if it did not.
		Left *identity.Entry `json:"left,omitempty"`
	}
	joinAnswer struct {
		Proof []byte          `json:"proof"`
		List  json.RawMessage `json:"list,omitempty"`
		Used  bool            `json:"used,omitempty"` // by another machine
	}
)

// maxJoin bounds a request in bytes; joinTimeout is how long the guest waits.
const (
	maxJoin     = 4 << 10
	joinTimeout = 20 * time.Second
)

// admit adds the holder of an invitation to the list. The invitation is used up first, on disk,
// then the member is added. A crash in between costs an invitation, which the same machine may use
// again; in the other order, two machines could get in.
func (r *Roster) admit(s wire.Service, c *wire.Conn, req joinRequest) (joinAnswer, error) {
	binding, err := c.Binding()
	if err != nil {
		return joinAnswer{}, err
	}
	i, err := r.consume(s, c.Peer(), func(i invitation) bool {
		return hmac.Equal(req.Proof, i.proof("join", binding)) && identity.PeerOf(req.Key) == c.Peer()
	})
	if err != nil {
		return joinAnswer{}, err
	}
	answer := joinAnswer{Proof: i.proof("welcome", binding), Used: i.By != c.Peer()}
	if answer.Used {
		return answer, nil
	}
	if err := r.mergeLeaving(c.Peer(), req.Left); err != nil {
		return joinAnswer{}, err
	}
	if err := r.add(identity.Member{ID: c.Peer(), Key: req.Key, Name: req.Name}, i.Roles); err != nil {
		return joinAnswer{}, err
	}
	answer.List, err = r.List().Encode()
	return answer, err
}

// add signs that a machine is a member, unless it is; Conflict when it was revoked, for good.
func (r *Roster) add(m identity.Member, roles []identity.Role) error {
	return r.change(func() ([]identity.Entry, error) {
		old, known := r.List().Member(m.ID)
		switch {
		case known && old.Revoked:
			return nil, agentbox.Errorf(agentbox.Conflict, "%s was revoked", m.ID.Short())
		case known && old.Active(r.cfg.Now()):
			return nil, nil
		}
		m.Roles = old.Roles // which say who may sign
		return r.entries(m, roles, nil)
	})
}
