package catalogue

import (
	"crypto/ed25519"
	"maps"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
)

// Extra is a catalogue's records of kinds that the first builds do not understand. They refuse a
// catalogue that has such a record, but skip a part of the message that they do not know, so these
// records travel in a part of their own: whole, signed by their owner, and with the sequence number
// at which it last changed.
type Extra struct {
	Head    Head    `json:"head"`
	Records records `json:"records,omitempty"`
}

// Bounds of an Extra. It has to fit beside the largest set into a message.
const (
	maxExtraRecords = 512
	maxExtraBytes   = 256 << 10
)

// extraDomain keeps the signature over the head of an Extra from being valid over a catalogue's.
const extraDomain = "agentbox catalogue extra 1\n"

func (s *set) of(k Kind) map[id]Record {
	if kinds[k].first {
		return s.records
	}
	return s.extra
}

func (s *set) record(i id) Record {
	if r, ok := s.records[i]; ok {
		return r
	}
	return s.extra[i]
}

func (s *set) understood() map[id]Record {
	all := maps.Clone(s.extra)
	if all == nil {
		all = map[id]Record{}
	}
	maps.Copy(all, s.records)
	maps.DeleteFunc(all, func(_ id, r Record) bool { return !r.understood() })
	return all
}

func (s *set) shown() Head {
	h := s.head
	h.Extra = s.extraHead.Sequence
	return h
}

// extraSince is the Extra for a reader that has a sequence number; nil if that is the newest.
func (s *set) extraSince(n uint64) *Extra {
	if s.extraHead.Sequence <= n {
		return nil
	}
	return &Extra{Head: s.extraHead, Records: sorted(s.extra)}
}

// verifyExtra checks that the owner of a delta signed its Extra; the error has code Corrupt.
func (d Delta) verifyExtra(team agentbox.Digest, key ed25519.PublicKey) error {
	if d.Extra == nil {
		return nil
	}
	h := d.Extra.Head
	if h.Owner != d.Head.Owner || h.Sequence > d.Head.Sequence {
		return corrupt("the catalogue of %s: records of another one", d.Head.Owner.Short())
	}
	return h.verify(extraDomain, team, key)
}

// takeExtra takes records of later kinds, if the Extra is newer. Its signature is verified.
func (s *set) takeExtra(e *Extra) error {
	if e == nil || e.Head.Sequence <= s.extraHead.Sequence {
		return nil
	}
	next := map[id]Record{}
	for _, r := range e.Records {
		if err := r.Check(); err != nil {
			return err
		}
		if kinds[r.Kind].first {
			return corrupt("the catalogue of %s: a record of kind %s among later kinds", s.head.Owner.Short(), r.Kind)
		}
		next[r.id()] = r
	}
	d, size, err := digestOf(next)
	switch {
	case err != nil:
		return err
	case len(next) > maxExtraRecords || size > maxExtraBytes:
		return corrupt("the catalogue of %s has %d records of later kinds with %d bytes, at most %d and %d", s.head.Owner.Short(), len(next), size, maxExtraRecords, maxExtraBytes)
	case d != e.Head.Digest:
		return corrupt("the catalogue of %s: its records of later kinds are not what its owner signed", s.head.Owner.Short())
	}
	s.extraHead, s.extra = e.Head, next
	return nil
}

// headExtra gives what the set has of later kinds a head with the set's own number, unsigned. Too
// much of it is NoSpace.
func (s *set) headExtra() error {
	d, size, err := digestOf(s.extra)
	if err == nil && (len(s.extra) > maxExtraRecords || size > maxExtraBytes) {
		err = agentbox.Errorf(agentbox.NoSpace, "this machine's catalogue would have %d records of later kinds with %d bytes (at most %d and %d)",
			len(s.extra), size, maxExtraRecords, maxExtraBytes)
	}
	s.extraHead = Head{Sequence: s.head.Sequence, Digest: d}
	return err
}

// forgetUnknown removes records of a later build, which nobody here keeps up to date.
func (e *Edit) forgetUnknown() {
	for _, all := range []map[id]Record{e.next.records, e.next.extra} {
		for i, r := range all {
			if !r.understood() {
				e.Remove(i.kind, i.key)
			}
		}
	}
}

// extraSequence is the number of what is known of an owner's later kinds. The caller holds s.mu.
func (s *Store) extraSequence(owner identity.PeerID) uint64 {
	if got := s.peers[owner]; got != nil {
		return got.extraHead.Sequence
	}
	return 0
}
