package mesh

import (
	"context"
	"sync"
	"time"

	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// A slow answer is useless here, and sixteen clocks suffice to show whose is off.
const (
	clockTimeout = 3 * time.Second // for a peer to answer
	clockPeers   = 16              // that are asked at most
)

// serveClock answers a peer that asks for the time over wire.Clock: Unix nanoseconds.
func serveClock(*wire.Conn, struct{}) (any, error) { return time.Now().UnixNano(), nil }

// ClockOffsets returns by how much the clocks of members who are here are ahead of ours, to within
// the latency of a packet. It is for people: nothing here depends on two clocks. Peers that do not
// answer are left out, and at most sixteen are asked. It takes three seconds at most; nil without a
// team.
func (m *Mesh) ClockOffsets(ctx context.Context) map[identity.PeerID]time.Duration {
	node := m.Node()
	if node == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, clockTimeout)
	defer cancel()
	out := map[identity.PeerID]time.Duration{}
	var mu sync.Mutex
	var all sync.WaitGroup
	here := m.OnlinePeers()
	for _, id := range here[:min(len(here), clockPeers)] {
		all.Go(func() {
			if ahead, err := queryClock(ctx, node, id); err == nil {
				mu.Lock()
				defer mu.Unlock()
				out[id] = ahead
			}
		})
	}
	all.Wait()
	return out
}

// queryClock assumes that the answer was made halfway between question and answer, as NTP does.
func queryClock(ctx context.Context, node *wire.Node, id identity.PeerID) (ahead time.Duration, err error) {
	c, err := node.Dial(ctx, id, wire.Clock)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	asked := time.Now()
	var theirs int64
	if err := c.Ask(ctx, struct{}{}, &theirs, 100); err != nil {
		return 0, err
	}
	took := time.Since(asked)
	return time.Unix(0, theirs).Sub(asked.Round(0).Add(took / 2)), nil
}
