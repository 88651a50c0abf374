package exchange

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"agentbox/agentbox"
)

// manifestTime is for one holder to send a manifest. Then the next one is asked.
const manifestTime = 5 * time.Second

// Manifest gets an encoded manifest from one of the peers that have some of its blob, verified: its
// digest is d, and it can be decoded. NotFound when none of them provides it. Concurrent calls for
// one manifest share one request. Nobody may change the bytes.
func (n *Node) Manifest(ctx context.Context, d agentbox.Digest) ([]byte, error) {
	// The first caller may give up while others wait for the same.
	answer := n.asking.DoChan(d.Hex(), func() (any, error) { return n.askHolders(n.ctx, d) })
	select {
	case a := <-answer:
		if a.Err != nil {
			return nil, a.Err
		}
		return a.Val.([]byte), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// askHolders asks one holder after the other, unless one has answered already in a session that
// still exists. The order is random, as all machines of a team that want the same would otherwise
// ask the same one first. It ends with the Node, not with one caller's ctx: others may wait for the
// same answer.
func (n *Node) askHolders(ctx context.Context, d agentbox.Digest) ([]byte, error) {
	n.mu.Lock()
	if b := n.blobs[d]; b != nil && b.encoded != nil {
		defer n.mu.Unlock()
		return b.encoded, nil
	}
	n.mu.Unlock()
	holders := n.cfg.Holders.Holders(d)
	rand.Shuffle(len(holders), func(i, j int) { holders[i], holders[j] = holders[j], holders[i] })
	var errs []error
	for _, p := range holders {
		if n.isBanned(p) || p == n.cfg.Self {
			continue
		}
		b, err := n.manifestOf(ctx, p, d)
		if err == nil {
			n.mu.Lock()
			if known := n.blobs[d]; known != nil { // while there is a session about it
				known.encoded = b
			}
			n.mu.Unlock()
			return b, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		errs = append(errs, err)
	}
	return nil, agentbox.Classify(agentbox.NotFound, "no peer gives the manifest %s: %w", d.Short(), errors.Join(append(errs, errNotShared)...))
}

// manifestOf asks one peer, in a session that is left open, as its pieces may be fetched next. A
// peer that sends another manifest loses its session. Conflict when there is a session with the
// peer already.
func (n *Node) manifestOf(ctx context.Context, p PeerID, d agentbox.Digest) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, manifestTime)
	defer cancel()
	s, err := n.open(ctx, p, d)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	s.push(frameManifest)
	n.mu.Unlock()
	select {
	case b := <-s.manifest:
		if _, err := checkManifest(d, b); err != nil {
			s.end(err)
			return nil, err
		}
		return b, nil
	case <-s.ctx.Done():
		return nil, context.Cause(s.ctx)
	case <-ctx.Done():
		s.end(ctx.Err())
		return nil, context.Cause(ctx)
	}
}
