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

// listMessage is a question and an answer of an exchange of lists: the client says which it has, and
// the server gives its own where that is another. Where both together make a third, the client
// sends that, and the answer, which is empty, says that it is kept. Both have the same list then,
// and what neither has heard of comes with the next exchange.
type listMessage struct {
	Digest agentbox.Digest `json:"digest,omitzero"`
	List   json.RawMessage `json:"list,omitempty"`
}

// maxMessage bounds a list with what is around it, in bytes. syncTime is for one exchange, atOnce
// how many Spread has at the same time.
const (
	maxMessage = identity.MaxList + 4<<10
	syncTime   = 10 * time.Second
	atOnce     = 16
)

// Sync makes our list and a peer's the same. The error is that of the connection, or of a list of
// the peer's that is refused.
func (r *Roster) Sync(ctx context.Context, node *wire.Node, peer identity.PeerID) error {
	ctx, cancel := context.WithTimeout(ctx, syncTime)
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

// send gives a list to a peer, and waits until it has kept it.
func (r *Roster) send(ctx context.Context, c *wire.Conn, list identity.List) error {
	b, err := list.Encode()
	if err != nil {
		return err
	}
	return c.Ask(ctx, listMessage{List: b}, &listMessage{}, maxMessage)
}

// receive merges a list that a peer sent, and gives its digest.
func (r *Roster) receive(b []byte) (agentbox.Digest, error) {
	list, err := identity.DecodeList(b, r.List().Team())
	if err != nil {
		r.refused.Add(1)
		return agentbox.Digest{}, err
	}
	return list.Digest(), r.merge(list.Entries()...)
}

// serve is the server's half of an exchange. A peer that sends a list that is refused keeps its
// connection: the list is dropped, and the refusal counted.
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

// Spread exchanges lists with many peers, atOnce of them at a time, and waits until that is done or
// failed. A peer that is not reached hears of it from others, or when it is back. ctx ends it
// early.
func (r *Roster) Spread(ctx context.Context, node *wire.Node, peers []identity.PeerID) {
	var all errgroup.Group
	all.SetLimit(atOnce)
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

// Farewell tells a peer that this machine leaves. It connects before it signs: who has left is not
// let in any more. Our own list stays as it is until Forget.
func (r *Roster) Farewell(ctx context.Context, node *wire.Node, peer identity.PeerID) error {
	ctx, cancel := context.WithTimeout(ctx, syncTime)
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
