package roster

import (
	"context"
	"encoding/json"
	"time"

	"golang.org/x/sync/errgroup"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// listMessage is the question and the answer of an exchange of lists. The client says which list it
// has, and the server answers with its own where that differs. If merging the two gives a third,
// the client sends that, and an empty answer confirms that it is stored. Both then have the same
// list; anything newer comes with the next exchange.
type listMessage struct {
	Digest agentbox.Digest `json:"digest,omitzero"`
	List   json.RawMessage `json:"list,omitempty"`
}

// maxMessage bounds a list and what is around it, in bytes. syncTimeout is for one exchange,
// maxSyncs is how many of them Spread runs at the same time.
const (
	maxMessage  = identity.MaxList + 4<<10
	syncTimeout = 10 * time.Second
	maxSyncs    = 16
)

// Sync makes our list and a peer's equal. The error is that of the connection, or of a refused
// list.
func (r *Roster) Sync(ctx context.Context, node *wire.Node, peer identity.PeerID) error {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	c, err := node.Dial(ctx, peer, wire.Roster)
	if err != nil {
		return err
	}
	defer c.Close()
	var theirs listMessage
	if err := c.Ask(ctx, listMessage{Digest: r.List().Digest()}, &theirs, maxMessage); err != nil || theirs.List == nil {
		return err
	}
	digest, err := r.receive(theirs.List)
	if err != nil || digest == r.List().Digest() {
		return err
	}
	return r.send(ctx, c, r.List())
}

// send sends a list to a peer and waits until the peer has stored it.
func (r *Roster) send(ctx context.Context, c *wire.Conn, list identity.List) error {
	b, err := list.Encode()
	if err != nil {
		return err
	}
	return c.Ask(ctx, listMessage{List: b}, &listMessage{}, maxMessage)
}

// receive merges a list that a peer sent, and returns its digest.
func (r *Roster) receive(b []byte) (agentbox.Digest, error) {
	list, err := identity.DecodeList(b, r.List().Team())
	if err != nil {
		r.refused.Add(1)
		return agentbox.Digest{}, err
	}
	return list.Digest(), r.merge(list.Entries()...)
}

// serve is the server's half of an exchange. A peer whose list is refused keeps its connection: the
// list is dropped and the refusal counted.
func (r *Roster) serve(c *wire.Conn, q listMessage) (any, error) {
	if q.List != nil {
		_, err := r.receive(q.List)
		if err != nil {
			r.cfg.Log.Info("mesh: member lists were not exchanged", "peer", c.Peer().Short(), "error", err)
		}
		return listMessage{}, err
	}
	list := r.List()
	if list.Digest() == q.Digest {
		return listMessage{}, nil
	}
	b, err := list.Encode()
	return listMessage{List: b}, err
}

// Spread exchanges lists with many peers, maxSyncs of them at a time, and waits until all exchanges
// have ended. Peers that cannot be reached hear of the list from others, or when they are back. ctx
// ends it early.
func (r *Roster) Spread(ctx context.Context, node *wire.Node, peers []identity.PeerID) {
	var all errgroup.Group
	all.SetLimit(maxSyncs)
	for _, p := range peers {
		all.Go(func() error {
			if err := r.Sync(ctx, node, p); err != nil {
				r.cfg.Log.Info("mesh: member lists were not exchanged", "peer", p.Short(), "error", err)
			}
			return nil
		})
	}
	_ = all.Wait()
}

// AnnounceLeave tells a peer that this machine leaves. It connects before it signs, because a peer
// that has left is not admitted any more. Our own list stays as it is until Forget.
func (r *Roster) AnnounceLeave(ctx context.Context, node *wire.Node, peer identity.PeerID) error {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	c, err := node.Dial(ctx, peer, wire.Roster)
	if err != nil {
		return err
	}
	defer c.Close()
	entry, err := r.leaving()
	if err != nil {
		return err
	}
	list, err := r.List().With(entry)
	if err != nil {
		return err
	}
	if err := r.send(ctx, c, list); agentbox.CodeOf(err) != agentbox.Conflict {
		return err
	}
	return nil // the peer took it, and ended the connection of a machine that is no member any more
}
