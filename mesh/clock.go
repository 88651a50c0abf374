package mesh

import (
	"context"
	"encoding/binary"
	"io"
	"sync"
	"time"

	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// A peer that is slow to answer tells nothing of use, and sixteen clocks show whose is the odd one.
const (
	clockTime  = 3 * time.Second // for a peer to answer
	clockPeers = 16              // that are asked at most
)

// tellTime is the handler of wire.Clock: it answers a peer that asks for the time with 8 bytes,
// Unix nanoseconds, big-endian.
func tellTime(ctx context.Context, c wire.Conn) {
	s, err := c.AcceptStream(ctx)
	if err != nil {
		return
	}
	defer s.Abort()
	if s.SetDeadline(time.Now().Add(clockTime)) != nil {
		return
	}
	if _, err := s.Write(binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))); err == nil {
		_ = s.Close()
		// The peer closes the connection once it has read: to close it first could lose the answer.
		<-ctx.Done() // who asked closes the connection
	}
}

// Clocks tells by how much the clocks of members who are here are ahead of ours, to within the time
// that a packet takes. It is for people: nothing here depends on two clocks. Peers that do not
// answer are left out, and of more than sixteen only some are asked. It takes three seconds at
// most; nil without a team.
func (m *Mesh) Clocks(ctx context.Context) map[identity.PeerID]time.Duration {
	node := m.Node()
	if node == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, clockTime)
	defer cancel()
	out := map[identity.PeerID]time.Duration{}
	var mu sync.Mutex
	var all sync.WaitGroup
	here := m.Here()
	for _, id := range here[:min(len(here), clockPeers)] {
		all.Go(func() {
			if ahead, err := askTime(ctx, node, id); err == nil {
				mu.Lock()
				defer mu.Unlock()
				out[id] = ahead
			}
		})
	}
	all.Wait()
	return out
}

// askTime takes the answer for the time in the middle between question and answer, as NTP does.
func askTime(ctx context.Context, node *wire.Node, id identity.PeerID) (ahead time.Duration, err error) {
	c, err := node.Dial(ctx, id, wire.Clock)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	s, err := c.OpenStream(ctx)
	if err != nil {
		return 0, err
	}
	defer s.Abort()
	if err := s.SetDeadline(time.Now().Add(clockTime)); err != nil {
		return 0, err
	}
	asked := time.Now()
	if err := s.Close(); err != nil { // the peer learns of the stream
		return 0, err
	}
	var b [8]byte
	if _, err := io.ReadFull(s, b[:]); err != nil {
		return 0, err
	}
	took := time.Since(asked)
	return time.Unix(0, int64(binary.BigEndian.Uint64(b[:]))).Sub(asked.Round(0).Add(took / 2)), nil
}
