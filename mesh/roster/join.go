package roster

import (
	"context"
	"crypto/hmac"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// Join uses an invitation. When it returns, the list is the newest one, on disk, and the node
// admits it and knows where the machine is that invited. name is how people will see this machine.
// Addresses are tried in order, the next one only when nobody answers. Exists when this machine is
// in another team, Unavailable when nobody answers, Conflict when the invitation has expired or is
// used, or when this machine keeps the root key of another team, Corrupt when the one who answers
// does not know the secret.
func (r *Roster) Join(ctx context.Context, node *wire.Node, invite identity.Invite, name string) error {
	if team := r.List().Team(); !team.IsZero() && team != invite.Team {
		return agentbox.Errorf(agentbox.Exists, "this machine is in another team").WithHint("agentbox mesh leave first")
	}
	root, err := r.readRoot(invite.Team)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	err = agentbox.Errorf(agentbox.Invalid, "the invitation says no address")
	for _, address := range invite.Addresses {
		if err = r.joinAt(ctx, node, address, invite, name); err == nil {
			r.setRoot(root)
		}
		if agentbox.CodeOf(err) != agentbox.Unavailable {
			return err
		}
	}
	if agentbox.CodeOf(err) == agentbox.Unavailable {
		err = agentbox.Errorf(agentbox.Unavailable, "join: %w", err).
			WithHint("the machine that invited has to be awake, and its UDP port reachable from here")
	}
	return err
}

// invitationOver is the error when the machine that answers does not know the invitation.
func invitationOver() error {
	return agentbox.Errorf(agentbox.Conflict, "the invitation was used, has expired, or is of another machine").
		WithHint("ask for a new one: agentbox mesh invite")
}

// joinAt asks at one address. The machine that answers is trusted when it proves that it has the
// secret, and its list when it is the team's and has both of us: from then on either of us can go
// on without the other. A machine that is in that team already merges the list with its own, which
// may have entries that the other has not.
func (r *Roster) joinAt(ctx context.Context, node *wire.Node, address string, invite identity.Invite, name string) error {
	i := invitation{Secret: invite.Secret[:]}
	c, err := node.DialGuest(ctx, address, i.service())
	if err != nil {
		if agentbox.CodeOf(err) == agentbox.Conflict {
			err = invitationOver()
		}
		return err
	}
	defer c.Close()
	binding, err := c.Binding()
	if err != nil {
		return agentbox.Errorf(agentbox.Unavailable, "%s: the connection ended", address)
	}
	answer, err := ask(ctx, c, joinRequest{Proof: i.proof("join", binding), Key: public(r.cfg.Key), Name: name, Left: r.readLeaving(invite.Team)})
	if err != nil {
		return err
	}
	if !hmac.Equal(answer.Proof, i.proof("welcome", binding)) {
		return agentbox.Errorf(agentbox.Corrupt, "%s does not know the invitation's secret", address).
			WithHint("somebody else answers there: check the network")
	}
	if answer.Used {
		return agentbox.Errorf(agentbox.Conflict, "another machine took up this invitation").
			WithHint("ask for a new one: agentbox mesh invite. If you did not expect that, agentbox mesh peers shows who joined")
	}
	list, err := identity.DecodeList(answer.List, invite.Team)
	if err != nil {
		return err
	}
	now := r.cfg.Now()
	if !list.Admits(c.Peer(), now) || !list.Admits(r.self, now) {
		return agentbox.Errorf(agentbox.Conflict, "the list of %s does not have both of us", address).
			WithHint("is the clock of this machine right?")
	}
	r.changing.Lock()
	defer r.changing.Unlock()
	if old := r.List(); !old.Team().IsZero() {
		if list, err = old.With(list.Entries()...); err != nil {
			return err
		}
	}
	if err := r.store(list); err != nil {
		return err
	}
	node.Admit(list)
	node.AddAddresses(c.Peer(), c.Remote())
	return nil
}

// ask sends the request and reads the answer. A machine that refuses ends the stream and does not
// say why, since it would say so to strangers as well: its owner finds the reason in the log.
func ask(ctx context.Context, c *wire.Conn, req joinRequest) (answer joinAnswer, err error) {
	if err = c.Ask(ctx, req, &answer, maxMessage); err != nil {
		err = agentbox.Errorf(agentbox.Conflict, "the machine that invited did not take this one: the invitation has expired, or this machine was revoked").
			WithHint("its daemon's log says which; a revoked machine needs a new identity to come back")
	}
	return answer, err
}
