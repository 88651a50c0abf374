package handover

import (
	"context"
	"crypto/rand"
	"io"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/contexts"
	"agentbox/agentbox/fleet/elsewhere"
	"agentbox/agentbox/host"
	"agentbox/agentbox/team"
	peers "agentbox/mesh/identity"
)

// liveBoxes implements contexts.LiveBoxes.
type liveBoxes struct {
	host.Moves
	peers elsewhere.Team
}

func (l liveBoxes) Pause(ctx context.Context, id string) (contexts.MovingBox, error) {
	box, err := l.Moves.Pause(ctx, id)
	if err != nil {
		return nil, err
	}
	return movingBox{box, l.peers}, nil
}

type movingBox struct {
	*host.MovingBox
	peers elsewhere.Team
}

func (m movingBox) HandOver(g api.LiveMove) error {
	peer, err := peers.ParsePeer(g.Peer)
	if err != nil {
		return err
	}
	return m.MovingBox.HandOver(g, m.peers.Name(peer))
}

// mayTake finds the box that a member may take with what runs in it: one who may hand work back, or to
// whom it goes back. Of a task, it is the box of its attempt here.
func (h *Handover) mayTake(ctx context.Context, name string, member peers.PeerID) (string, error) {
	of, err := h.find(ctx, name)
	if err != nil {
		return "", err
	}
	if h.going.to(member, of.ID) {
		return of.ID, nil
	}
	if may, err := h.Owner.Allowed.MayPush(of, member); !may || err != nil {
		return "", agentbox.Errorf(agentbox.Forbidden, "it is not shared")
	}
	ref, err := h.boxOf(ctx, of.ID)
	return ref.Box, err
}

// arriving implements contexts.Arrival.
type arriving struct{ *host.Arrival }

func (a arriving) Said() contexts.Said {
	_, id, token := a.From()
	return contexts.Said{ID: id, Token: token}
}

func (a arriving) Receive(ctx context.Context, h contexts.LiveAnswer, from io.ReadWriteCloser) error {
	return a.Arrival.Receive(ctx, h.Seed, h.Authority, from)
}

// dialLive connects to the machine that has a box.
func (h *Handover) dialLive(ctx context.Context, peer string) (contexts.LiveTo, func(), error) {
	id, err := peers.ParsePeer(peer)
	if err != nil {
		return contexts.LiveTo{}, nil, err
	}
	c, err := h.Peers.DialService(ctx, id, contexts.LiveService)
	if err != nil {
		return contexts.LiveTo{}, nil, err
	}
	stop := c.KeepAlive()
	return contexts.LiveTo{Conn: c}, func() { stop(); c.Close() }, nil
}

// askLive asks whether what runs in a context can move here, and why not.
func (p *pulling) askLive(ctx context.Context, theirs team.AnnouncedContext) {
	l, err := p.canMove(ctx, theirs)
	if err != nil {
		p.out.NotLive = agentbox.AsError(err).Message
		return
	}
	p.out.Live = &l
}

func (p *pulling) canMove(ctx context.Context, theirs team.AnnouncedContext) (l api.Live, err error) {
	if p.peer != p.whose {
		return l, agentbox.Errorf(agentbox.Conflict, "its machine is not there")
	}
	to, end, err := p.dialLive(ctx, p.whose.String())
	if err != nil {
		return l, err
	}
	defer end()
	a, err := to.Say(ctx, contexts.Said{Word: contexts.WordShow, ID: theirs.ID})
	if agentbox.CodeOf(err) == agentbox.Forbidden {
		return l, elsewhere.NotShared(theirs.Name, p.out.From, true, p.Peers.Name(p.Peers.Self()))
	}
	if err != nil {
		return l, err
	}
	if a.Live == nil {
		return l, agentbox.Errorf(agentbox.Corrupt, "the answer is incomplete")
	}
	l = *a.Live
	l.Peer = p.whose.String()
	if p.out.Pins == nil || p.out.Pins.Image != l.Image {
		return l, agentbox.Errorf(agentbox.Conflict, "its image cannot be had")
	}
	return l, host.MovesOf(p.Boxes).Fits(ctx, l)
}

// moveHere is api.MoveContext.
func (h *Handover) moveHere(ctx context.Context, req api.MoveRequest, progress agentbox.Progress) (api.UpResponse, error) {
	return host.MovesOf(h.Boxes).MoveHere(ctx, req, h.moveFrom(req.Live.Peer), progress)
}

// moveFrom moves a box here from a machine that has it.
func (h *Handover) moveFrom(peer string) func(context.Context, *host.Arrival) error {
	return func(ctx context.Context, a *host.Arrival) error {
		to, end, err := h.dialLive(ctx, peer)
		if err != nil {
			return agentbox.Classify(agentbox.Conflict, "%w", err)
		}
		defer end()
		if err := a.Begin(rand.Text()); err != nil {
			return err
		}
		err = contexts.Move(ctx, to, arriving{a})
		if agentbox.CodeOf(err) == agentbox.Unavailable {
			err = agentbox.AsError(err).WithHint("this machine goes on asking it; agentbox ls shows the box once it is here")
		}
		return err
	}
}

// settleEvery is how often the machines that boxes came from are told what they should know.
const settleEvery = 10 * time.Second

// SettleArrivals says what is left to say about boxes that came from other machines, until ctx ends.
func (h *Handover) SettleArrivals(ctx context.Context) {
	for {
		changed := h.Changed()
		for _, a := range host.MovesOf(h.Boxes).Arrivals() {
			if err := h.settleArrival(ctx, a); err != nil && ctx.Err() == nil {
				h.Log.Info("a box that comes from another machine waits for that", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-time.After(settleEvery):
		}
	}
}

func (h *Handover) settleArrival(ctx context.Context, a *host.Arrival) error {
	if a.Step() == api.StepMine && !a.Ran() {
		return nil // nobody has woken it
	}
	peer, _, _ := a.From()
	to, end, err := h.dialLive(ctx, peer)
	if err != nil {
		return err
	}
	defer end()
	return a.Alone(func() error { return contexts.Settle(ctx, to, arriving{a}) })
}
