package handover

import (
	"context"
	"sync"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/contexts"
	"agentbox/agentbox/host"
	peers "agentbox/mesh/identity"
)

// going are the boxes that their users let go back to the machines that they came from.
type going struct {
	mu  sync.Mutex
	all map[string]peers.PeerID // by ID
}

// begin lets a machine take a box until end is called; false if it is under way already.
func (g *going) begin(id string, peer peers.PeerID) (end func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.all[id]; ok {
		return nil, false
	}
	if g.all == nil {
		g.all = map[string]peers.PeerID{}
	}
	g.all[id] = peer
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.all, id)
	}, true
}

func (g *going) to(peer peers.PeerID, id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	to, ok := g.all[id]
	return ok && to == peer
}

// pushLive has what runs in a box go back to the one that it came from: the other machine takes it, as it
// was taken from there.
func (h *Handover) pushLive(ctx context.Context, id agentbox.BoxID, progress agentbox.Progress) error {
	moves := host.MovesOf(h.Boxes)
	for _, a := range moves.Arrivals() { // it may have come a moment ago
		if a.Box() == id {
			if err := h.settleArrival(ctx, a); err != nil {
				return agentbox.Classify(agentbox.Unavailable, "%w", err)
			}
		}
	}
	from, there, live, err := moves.Origin(ctx, id)
	if err != nil {
		return err
	}
	peer, err := peers.ParsePeer(from.Peer)
	if err != nil {
		return err
	}
	end, ok := h.going.begin(id.String(), peer)
	if !ok {
		return agentbox.Errorf(agentbox.Unavailable, "it is on its way already")
	}
	defer end()
	to, hangUp, err := h.dialLive(ctx, from.Peer)
	if err != nil {
		return err
	}
	defer hangUp()
	moved := progress.Begin("move", "memory, processes and files")
	_, err = to.Say(ctx, contexts.Said{Word: contexts.WordReturn, ID: there, Token: from.Token, Live: &live})
	if err == nil {
		moved("")
	}
	return h.whereIsIt(ctx, id, err)
}

// whereIsIt says of a box that was to go back whether it goes on here.
func (h *Handover) whereIsIt(ctx context.Context, id agentbox.BoxID, err error) error {
	_, given := host.MovesOf(h.Boxes).MovedTo(context.WithoutCancel(ctx), id.String())
	switch {
	case err == nil || agentbox.CodeOf(err) == agentbox.Conflict && !given:
		return err
	case given:
		return agentbox.Classify(agentbox.Unavailable, "what ran in it was handed over, and where it goes on is not known: %w", err).
			WithHint("the two machines settle it as soon as they meet: agentbox show %s says whether it runs here", id)
	case agentbox.CodeOf(err) == agentbox.Forbidden:
		return agentbox.Errorf(agentbox.Conflict, "that machine does not take it")
	}
	return err
}

// comeBack takes what runs in a member's box back here.
func (h *Handover) comeBack(ctx context.Context, member peers.PeerID, q contexts.Said) error {
	of, err := h.find(ctx, q.ID)
	may := false
	if err == nil {
		may, err = h.Owner.Allowed.MayPush(of, member)
	}
	if !may || of.ID != q.ID {
		h.Log.Info("a member hands back what it may not", "peer", member.Short(), "error", err)
		return agentbox.Errorf(agentbox.Forbidden, "it is not shared")
	}
	err = host.MovesOf(h.Boxes).ComeBack(ctx, q.ID, api.LiveMove{Peer: member.String(), Token: q.Token}, *q.Live, h.moveFrom(member.String()))
	h.Log.Info("what runs in a box comes back from another machine", "box", q.ID, "peer", member.Short(), "error", err)
	return err
}
