package exchange

import (
	"time"

	"agentbox/agentbox"
	"agentbox/mesh/exchange/schedule"
)

// judge decodes pieces that came and has them verified, one after the other, until in is closed;
// several do it at once, one for each processor, as hashing is most of the work. The buffer of a
// piece is its judge's alone until it is recycled.
func (t *Transfer) judge(in <-chan arrival) {
	for a := range in {
		began := time.Now()
		t.settle(a, began, t.verify(a))
		recycle(a.in.b)
		t.pending.Done()
	}
}

// verify decodes one and hands it to the transfer's Arrived, which hashes and stores it. A piece
// that cannot be decoded is Corrupt like one with another digest: both are wrong bytes. It is
// called without mu.
func (t *Transfer) verify(a arrival) error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	b, err := t.n.codec.Decode(a.in.b, a.in.head.Encoding, int(a.in.head.Size))
	if err != nil {
		return err
	}
	return t.arrived(t.ctx, a.s.peer, int(a.in.head.Number), b)
}

// settle tells the scheduler and the calls that wait how a piece did, whose verification began at a
// time. Corrupt is the peer's fault: the piece is asked of others, and the peer has a strike. Any
// other error is ours, a full disk for one: asking again would end the same, so it ends the calls.
func (t *Transfer) settle(a arrival, began time.Time, err error) {
	i := int(a.in.head.Number)
	t.n.mu.Lock()
	defer t.n.mu.Unlock()
	switch {
	case err == nil:
		t.n.book(a.s.peer).Received += int64(a.in.head.Stored)
		t.here(i)
	case agentbox.CodeOf(err) == agentbox.Corrupt:
		t.n.book(a.s.peer).Wrong++
		t.n.cfg.Log.Warn("a peer sent wrong bytes", "peer", a.s.peer.Short(), "blob", t.b.digest.Short(), "piece", i, "error", err)
		slot := schedule.Nobody // it may have left, and have another one since
		if a.s.joined {
			slot = a.s.slot
		}
		t.state.Wrong(slot, i)
		t.n.strike(a.s.peer)
	default:
		t.state.Failed(i)
		t.abandon(i, began, err)
	}
	t.kick.Notify()
}

// here says to all that a piece came: to the scheduler, to the peers that lack it, and to the
// calls. It is told on before anything was flushed to disk. Callers hold mu.
func (t *Transfer) here(i int) {
	t.act(t.state.Here(i))
	if !t.b.bits.has(i) {
		t.b.bits.put(i, true)
		for s := range t.b.sessions {
			if !s.theirs.has(i) {
				s.tellHave(i)
			}
		}
	}
	for c := range t.calls {
		if delete(c.left, i); len(c.left) == 0 {
			t.finish(c, nil)
		}
	}
}

// abandon ends the calls that wanted a piece at a time. A caller that asked later may well ask
// because of this very error, after mending what it said: it gets an attempt of its own. Callers
// hold mu.
func (t *Transfer) abandon(i int, at time.Time, err error) {
	for c := range t.calls {
		if c.left[i] && c.began.Before(at) {
			t.finish(c, err)
		}
	}
}

// finish ends a call, once. Callers hold mu.
func (t *Transfer) finish(c *call, err error) {
	delete(t.calls, c)
	c.done <- err
}

// act does what the scheduler says. Callers hold mu.
func (t *Transfer) act(list []schedule.Action) {
	for _, a := range list {
		s := t.slots[a.Peer]
		if s == nil {
			continue
		}
		if len(a.Pieces) > 0 {
			s.push(frameRequest, request{uint32(a.ID), a.Class, a.Pieces}.encode()...)
		} else {
			delete(s.incoming, uint32(a.ID))
			s.push(frameCancel, idBytes(uint32(a.ID))...)
		}
	}
}
