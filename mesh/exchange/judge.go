package exchange

import (
	"time"

	"agentbox/agentbox"
	"agentbox/mesh/exchange/schedule"
)

// verifyAll decodes and verifies the pieces from in, one after the other, until it is closed. One
// runs for each processor, as hashing is most of the work. It owns the buffer of a piece until it
// is recycled.
func (t *Transfer) verifyAll(in <-chan arrival) {
	for a := range in {
		began := time.Now()
		t.reportResult(a, began, t.verify(a))
		recycle(a.in.b)
		t.pending.Done()
	}
}

// verify decodes a piece and passes it to the transfer's ChunkHandler, which hashes and stores it.
// A piece that cannot be decoded is Corrupt like one with the wrong digest: both are wrong bytes.
// The caller does not hold mu.
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

// reportResult tells the scheduler and the waiting calls the result of a piece whose verification
// began at that time. Corrupt is the peer's fault: others are asked for the piece, and the peer
// gets a strike. Any other error is ours, such as a full disk: asking again would end the same way,
// so it ends the calls.
func (t *Transfer) reportResult(a arrival, began time.Time, err error) {
	i := int(a.in.head.Number)
	t.n.mu.Lock()
	defer t.n.mu.Unlock()
	switch {
	case err == nil:
		t.n.trafficOf(a.s.peer).Received += int64(a.in.head.Stored)
		t.pieceArrived(i)
	case agentbox.CodeOf(err) == agentbox.Corrupt:
		t.n.trafficOf(a.s.peer).Wrong++
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

// pieceArrived announces a piece: to the scheduler, to the peers that lack it, and to the calls.
// Peers hear of it before it is flushed to disk. The caller holds mu.
func (t *Transfer) pieceArrived(i int) {
	t.apply(t.state.SetPresent(i))
	if !t.b.bits.has(i) {
		t.b.bits.put(i, true)
		for s := range t.b.sessions {
			if !s.theirs.has(i) {
				s.announceHave(i)
			}
		}
	}
	for c := range t.calls {
		if delete(c.left, i); len(c.left) == 0 {
			t.finish(c, nil)
		}
	}
}

// abandon ends the calls that wanted a piece at that time. A caller that asked later may have done
// so because of this very error, after mending its cause: it gets its own attempt. The caller holds
// mu.
func (t *Transfer) abandon(i int, at time.Time, err error) {
	for c := range t.calls {
		if c.left[i] && c.began.Before(at) {
			t.finish(c, err)
		}
	}
}

// finish ends a call, once. The caller holds mu.
func (t *Transfer) finish(c *call, err error) {
	delete(t.calls, c)
	c.done <- err
}

// apply carries out the scheduler's actions. The caller holds mu.
func (t *Transfer) apply(list []schedule.Action) {
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
