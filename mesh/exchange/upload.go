package exchange

import (
	"time"

	"agentbox/agentbox"
	"agentbox/mesh/exchange/schedule"
)

// upload passes pieces to sessions, a few at the same time, in the order of the queue. It also ends
// sessions that nobody needs. It ends with the Node.
func (n *Node) upload() {
	tick := time.NewTicker(stuckAfter / 2)
	defer tick.Stop()
	for {
		for n.sendOne() {
		}
		select {
		case <-n.ctx.Done():
			return
		case <-n.wakeUp:
		case now := <-tick.C:
			n.endIdle(now)
		}
	}
}

// sendOne starts to send one piece; false if nothing may be sent now. The piece counts as sent
// before it is read, so that a slow disk gives no session two turns.
func (n *Node) sendOne() bool {
	n.mu.Lock()
	if n.saturated() {
		n.mu.Unlock()
		return false
	}
	a, ok := n.queue.Next(
		func(s *session) bool { return len(s.out) < sessionUploads },
		func(s *session, i int) bool { return s.blob.bits.has(i) && !s.theirs.has(i) },
	)
	if !ok {
		n.mu.Unlock()
		return false
	}
	s := a.Session
	if a.Piece < 0 {
		s.push(frameNone, idBytes(a.ID)...)
		n.mu.Unlock()
		return true
	}
	c := s.blob.m.Chunks[a.Piece]
	n.queue.Sent(s, c.Size)
	n.mu.Unlock()
	n.load(a, c.Digest, c.Size)
	return true
}

// saturated reports whether enough is being sent. Pieces that do not move, because their receivers
// do not take them, do not count, up to a bound. The caller holds mu.
func (n *Node) saturated() bool {
	moving := 0
	for o := range n.sending {
		if time.Since(o.moved) < stuckAfter {
			moving++
		}
	}
	return moving >= uploads || len(n.sending) >= maxStuck
}

// load reads a piece and has its session send it. One that is missing, or differs from the
// manifest, was evicted or damaged since the bitmap was read: all peers are told that it is not
// here. The disk is read without mu, so the session may have ended meanwhile. The piece is sent as
// stored, compressed or not: the peer decodes and verifies it.
func (n *Node) load(a schedule.Answer[*session], d agentbox.Digest, size int) {
	buf := buffer(size)
	b, encoding, full, err := n.cfg.Store.ReadStored(n.ctx, d, buf)
	n.mu.Lock()
	defer n.mu.Unlock()
	s := a.Session
	if err != nil || full != size || len(b) == 0 || len(b) > size {
		recycle(buf)
		n.lost(s.blob, a.Piece)
		s.push(frameNone, idBytes(a.ID)...)
		return
	}
	if s.ctx.Err() != nil {
		recycle(buf)
		return
	}
	head := pieceHead{ID: a.ID, Number: uint32(a.Piece), Encoding: encoding, Size: uint32(size), Stored: uint32(len(b))}
	o := &outgoing{id: a.ID, head: head.encode(), b: b, whole: buf, moved: time.Now()}
	s.out = append(s.out, o)
	n.sending[o] = true
	s.wake.Notify()
}

// lost records that a piece is not here any more, and tells all peers. The caller holds mu.
func (n *Node) lost(b *blobState, i int) {
	if !b.bits.has(i) {
		return
	}
	b.bits.put(i, false)
	for s := range b.sessions {
		s.push(frameLost, encodeNumbers(nil, []int{i})...)
	}
}

// endIdle ends the sessions without requests for a while, and lifts bans that are over. Sessions of
// a transfer stay, as their peers may get what it needs later.
func (n *Node) endIdle(now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, b := range n.blobs {
		if b.transfer != nil {
			continue
		}
		for s := range b.sessions {
			if now.Sub(s.busy) > idleTimeout {
				n.drop(s, errIdle)
			}
		}
	}
	for p, until := range n.banned {
		if now.After(until) {
			delete(n.banned, p)
		}
	}
}
