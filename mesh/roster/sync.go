package roster

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// Messages of an exchange of lists: the client says which it has; the server answers with its own
// where that is another; the client answers with what both make; the server says that it has it.
// Both have the same list then, and what neither has heard of comes with the next exchange.
type (
	listRequest struct {
		Digest agentbox.Digest `json:"digest"`
	}
	listMessage struct {
		List json.RawMessage `json:"list,omitempty"` // absent: you have it
	}
)

// maxMessage bounds a list with what is around it, in bytes. syncTime is for one exchange, atOnce
// how many Spread has at the same time.
const (
	maxMessage = identity.MaxList + 1<<10
	syncTime   = 10 * time.Second
	atOnce     = 16
)

// Sync makes our list and a peer's the same. The error is that of the connection, or of a list of
// the peer's that is refused.
func (r *Roster) Sync(ctx context.Context, node *wire.Node, peer identity.PeerID) error {
	return r.exchangeWith(ctx, node, peer, r.List().Digest(), true, func(theirs agentbox.Digest) (mine listMessage, err error) {
		if theirs != r.List().Digest() {
			mine.List, err = r.List().Encode()
		}
		return mine, err
	})
}

// exchangeWith is the client's half of an exchange: it says which list there is, takes the peer's,
// and says what reply gives for that. With confirmed the peer has to say that it took it.
func (r *Roster) exchangeWith(ctx context.Context, node *wire.Node, peer identity.PeerID, digest agentbox.Digest, confirmed bool, reply func(theirs agentbox.Digest) (listMessage, error)) error {
	ctx, cancel := context.WithTimeout(ctx, syncTime)
	defer cancel()
	c, err := node.Dial(ctx, peer, wire.Roster)
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := c.OpenStream(ctx)
	if err != nil {
		return err
	}
	defer s.Abort()
	_ = s.SetDeadline(time.Now().Add(syncTime))
	if err := wire.WriteMessage(s, listRequest{Digest: digest}, maxMessage); err != nil {
		return err
	}
	theirs, err := r.read(s)
	if err != nil {
		return err
	}
	mine, err := reply(theirs)
	if err == nil {
		err = wire.WriteMessage(s, mine, maxMessage)
	}
	if err != nil {
		return err
	}
	_ = s.Close()
	var done listMessage
	if err := wire.ReadMessage(s, &done, maxMessage); confirmed {
		return err
	}
	return nil
}

// read takes a list that is sent, merges it, and gives its digest; that of ours where none is sent,
// as the peer has ours.
func (r *Roster) read(s wire.Stream) (agentbox.Digest, error) {
	var m listMessage
	if err := wire.ReadMessage(s, &m, maxMessage); err != nil {
		return agentbox.Digest{}, err
	}
	if m.List == nil {
		return r.List().Digest(), nil
	}
	list, err := identity.DecodeList(m.List, r.List().Team())
	if err != nil {
		r.mu.Lock()
		r.refused++
		r.mu.Unlock()
		return agentbox.Digest{}, err
	}
	err = r.merge(list.Entries())
	return list.Digest(), err
}

// serve answers exchanges, one after the other, until the connection ends. A peer that sends a list
// that is refused keeps its connection: the list is dropped, and the refusal counted.
func (r *Roster) serve(ctx context.Context, c wire.Conn) {
	for {
		s, err := c.AcceptStream(ctx)
		if err != nil {
			return
		}
		if err := r.exchange(s); err != nil {
			r.cfg.Log.Info("mesh: member lists were not exchanged", "peer", c.Peer().Short(), "error", err)
		}
	}
}

// exchange is the server's half of one exchange, within syncTime. Its last message is what the
// client's Sync waits for: our list is on disk then.
func (r *Roster) exchange(s wire.Stream) error {
	defer s.Abort()
	_ = s.SetDeadline(time.Now().Add(syncTime))
	var req listRequest
	if err := wire.ReadMessage(s, &req, maxJoin); err != nil {
		return err
	}
	answer := listMessage{}
	if list := r.List(); list.Digest() != req.Digest {
		b, err := list.Encode()
		if err != nil {
			return err
		}
		answer.List = b
	}
	if err := wire.WriteMessage(s, answer, maxMessage); err != nil {
		return err
	}
	if _, err := r.read(s); err != nil {
		return err
	}
	defer s.Close()
	return wire.WriteMessage(s, listMessage{}, maxMessage)
}

// Spread exchanges lists with many peers, atOnce of them at a time, and waits until that is done or
// failed. A peer that is not reached hears of it from others, or when it is back. ctx ends it
// early.
func (r *Roster) Spread(ctx context.Context, node *wire.Node, peers []identity.PeerID) {
	limit := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for _, p := range peers {
		limit <- struct{}{}
		all.Go(func() {
			defer func() { <-limit }()
			if err := r.Sync(ctx, node, p); err != nil {
				r.cfg.Log.Info("mesh: member lists were not exchanged", "peer", p.Short(), "error", err)
			}
		})
	}
	all.Wait()
}

// Farewell tells a peer that this machine leaves. The peer takes it, and closes the connection of a
// machine that is no member any more, so there is no answer to wait for. Our own list stays as it
// is until Forget.
func (r *Roster) Farewell(ctx context.Context, node *wire.Node, peer identity.PeerID) error {
	entry, err := r.Leaving()
	if err != nil {
		return err
	}
	list, err := r.List().With(entry)
	if err != nil {
		return err
	}
	b, err := list.Encode()
	if err != nil {
		return err
	}
	return r.exchangeWith(ctx, node, peer, list.Digest(), false, func(agentbox.Digest) (listMessage, error) { return listMessage{List: b}, nil })
}
