package catalogue

import (
	"maps"
	"time"

	"agentbox/mesh/identity"
)

// MaxClaimHold is how long one peer can hold one claim at most, however often it renews it.
const MaxClaimHold = time.Hour

// claimID is one peer's claim on one key.
type claimID struct {
	owner identity.PeerID
	key   string
}

// claimTimes is when we saw a claim, by our own monotonic clock.
type claimTimes struct {
	first   time.Time // it has been there since
	renewed time.Time // it has had the value changed since
	changed uint64
}

// noteClaims records when the claims of a catalogue were first seen and last renewed; next is nil
// for a catalogue that is forgotten. The caller holds s.mu.
func (s *Store) noteClaims(owner identity.PeerID, next *set) {
	now := time.Now()
	if next == nil {
		next = &set{}
	}
	for i, r := range next.records {
		if i.kind != Claim {
			continue
		}
		c := claimID{owner, i.key}
		seen, ok := s.seen[c]
		if !ok {
			seen.first = now
		}
		if !ok || seen.changed != r.Changed {
			seen.renewed, seen.changed = now, r.Changed
		}
		s.seen[c] = seen
	}
	// A claim that was held for too long is remembered for as long again: otherwise a peer could
	// hold it forever by giving it up for a moment.
	maps.DeleteFunc(s.seen, func(c claimID, seen claimTimes) bool {
		_, there := next.records[id{Claim, c.key}]
		return c.owner == owner && !there && (now.Sub(seen.first) < MaxClaimHold || now.Sub(seen.renewed) > 2*MaxClaimHold)
	})
}

// Holder returns the peer that is making something: the one with the lowest PeerID among those with
// a valid claim; false when there is none. Peers that are not here do not count, nor do those that
// are no builders, as nobody uses what they make. It may be this machine.
func (s *Store) Holder(key string) (identity.PeerID, bool) {
	here := map[identity.PeerID]bool{}
	for _, p := range s.cfg.OnlinePeers() {
		here[p] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var holder identity.PeerID
	now := time.Now()
	for _, p := range s.index[id{Claim, key}] {
		r := s.peers[p.owner].records[p.id]
		seen := s.seen[claimID{p.owner, key}]
		over := now.Sub(seen.renewed) >= time.Duration(r.TTL)*time.Second || now.Sub(seen.first) >= MaxClaimHold
		member, _ := s.list.Member(p.owner)
		if over || !here[p.owner] || !s.list.Admits(p.owner, now) || !member.Has(identity.Builder) { // nobody uses what others make
			continue
		}
		if holder.IsZero() || p.owner.Compare(holder) < 0 {
			holder = p.owner
		}
	}
	if _, mine := s.own.records[id{Claim, key}]; mine && (holder.IsZero() || s.self.Compare(holder) < 0) {
		holder = s.self
	}
	return holder, !holder.IsZero()
}

// TakeClaim claims that we are about to make something, unless somebody else did before: then it is
// false, with that peer. Two that claim at the same time both succeed, and Holder tells each of
// them within seconds which one goes on. Taking a claim again renews it. ttl is rounded to seconds,
// from one second to an hour.
func (s *Store) TakeClaim(key string, ttl time.Duration) (identity.PeerID, bool, error) {
	if holder, ok := s.Holder(key); ok && holder != s.self {
		return holder, false, nil
	}
	err := s.Update(func(e *Edit) {
		e.Touch(Record{Kind: Claim, Key: key, TTL: max(1, min(maxTTL, int(ttl/time.Second)))})
	})
	return s.self, err == nil, err
}

// DropClaim ends our claim, because the result exists or failed. Without a claim it does nothing.
func (s *Store) DropClaim(key string) error {
	return s.Update(func(e *Edit) { e.Remove(Claim, key) })
}
