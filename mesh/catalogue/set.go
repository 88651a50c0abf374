package catalogue

import (
	"maps"
	"reflect"
	"slices"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
)

// maxRemoved is how many removals are remembered. A peer that is further behind gets the whole set.
const maxRemoved = 512

// removal says that a record went when the catalogue had a sequence number. It is not part of what
// is signed: leaving one out shows, as the digest is another then.
type removal struct {
	Kind     Kind   `json:"kind"`
	Key      string `json:"key"`
	Sequence uint64 `json:"sequence"`
}

// check tells whether a removal may be in a delta, as an error of code Corrupt. It is kept, and passed
// on to others, although its owner has not signed it.
func (r removal) check(d Delta) error {
	if !isText(r.Key, MaxKey) || !isText(string(r.Kind), MaxKey) || r.Sequence <= d.Since || r.Sequence > d.Head.Sequence {
		return corrupt("the catalogue of %s: %s %.80q was not removed between %d and %d", d.Head.Owner.Short(), r.Kind, r.Key, d.Since, d.Head.Sequence)
	}
	return nil
}

// set is one catalogue as one peer has it. It is never changed: apply and edit give another, so it
// may be read without a lock.
type set struct {
	head Head
	// records are what the head's digest is of.
	records map[id]Record
	// removed are the last removals, the oldest first; they are complete from the sequence number
	// floor on.
	removed []removal
	floor   uint64
}

// Delta is what takes a set from one sequence number to its head's, or a whole set. It is the
// answer to a fetch, and what is kept on disk.
type Delta struct {
	Head    Head     `json:"head"`
	Since   uint64   `json:"since"` // 0: all of it
	Records records  `json:"records,omitempty"`
	Removed removals `json:"removed,omitempty"`
}

// records, removals and heads are what a peer sends of each: no more of them than a message may have.
type (
	records  []Record
	removals []removal
	heads    []Head
)

// UnmarshalJSON reads what the encoder writes of a slice.
func (r *records) UnmarshalJSON(b []byte) (err error) {
	*r, err = identity.DecodeArray[Record](b, MaxRecords)
	return err
}

// UnmarshalJSON reads what the encoder writes of a slice.
func (r *removals) UnmarshalJSON(b []byte) (err error) {
	*r, err = identity.DecodeArray[removal](b, maxRemoved)
	return err
}

// UnmarshalJSON reads what the encoder writes of a slice.
func (h *heads) UnmarshalJSON(b []byte) (err error) {
	*h, err = identity.DecodeArray[Head](b, identity.MaxEntries)
	return err
}

// since gives what takes a reader from a sequence number to here: all of it for 0, for a number
// that was never given, or when what was removed since then is not known any more.
func (s *set) since(n uint64) Delta {
	if n == 0 || n < s.floor || n > s.head.Sequence {
		return Delta{Head: s.head, Records: sorted(s.records)}
	}
	d := Delta{Head: s.head, Since: n}
	for _, r := range sorted(s.records) {
		if r.Changed > n {
			d.Records = append(d.Records, r)
		}
	}
	for _, r := range s.removed {
		if r.Sequence > n {
			d.Removed = append(d.Removed, r)
		}
	}
	return d
}

// apply gives the set that a delta makes of this one. The head's signature has been verified; that
// the records are those that it stands for is checked here.
func (s *set) apply(d Delta) (*set, error) {
	next := &set{head: d.Head, records: map[id]Record{}, floor: d.Head.Sequence}
	if d.Since != 0 {
		if d.Since != s.head.Sequence {
			return nil, corrupt("the catalogue of %s: a difference to %d, not %d", d.Head.Owner.Short(), d.Since, s.head.Sequence)
		}
		next.records, next.floor, next.removed = maps.Clone(s.records), s.floor, slices.Concat(s.removed, d.Removed)
		for _, r := range d.Removed {
			if err := r.check(d); err != nil {
				return nil, err
			}
			delete(next.records, id{r.Kind, r.Key})
		}
		next.trim()
	}
	for _, r := range d.Records {
		if err := r.Check(); err != nil {
			return nil, err
		}
		next.records[r.id()] = r
	}
	return next, next.check()
}

// check tells whether the set is within its bounds and what its head says, as an error of code
// Corrupt.
func (s *set) check() error {
	if len(s.records) > MaxRecords {
		return corrupt("the catalogue of %s has more than %d records", s.head.Owner.Short(), MaxRecords)
	}
	d, size, err := digestOf(s.records)
	switch {
	case err != nil:
		return err
	case size > MaxBytes:
		return corrupt("the catalogue of %s has %d bytes, at most %d", s.head.Owner.Short(), size, MaxBytes)
	case d != s.head.Digest:
		return corrupt("the catalogue of %s is not what its owner signed", s.head.Owner.Short())
	}
	return nil
}

// trim forgets the oldest removals, and with them that older readers can be told a difference.
func (s *set) trim() {
	if over := len(s.removed) - maxRemoved; over > 0 {
		s.floor = max(s.floor, s.removed[over-1].Sequence)
		s.removed = slices.Clone(s.removed[over:])
	}
}

// Edit changes one's own catalogue; all changes of one Edit become visible at once. It is valid
// during the call of Update that gave it.
type Edit struct {
	next *set
	// changed says that next differs from what was, or a claim is renewed.
	changed bool
}

// Put adds a record, or replaces the one of the same kind and key. One that says the same stays as
// it is, its number too, so that nothing is announced.
func (e *Edit) Put(r Record) {
	old, ok := e.next.records[r.id()]
	r.Changed = old.Changed
	if ok && reflect.DeepEqual(old, r) {
		return
	}
	e.Touch(r)
}

// Touch is Put that counts as a change even if nothing is different: a claim that is renewed.
func (e *Edit) Touch(r Record) {
	r.Changed = e.next.head.Sequence
	e.next.records[r.id()] = r
	e.changed = true
}

// Remove takes a record out, if it is there.
func (e *Edit) Remove(k Kind, key string) {
	if _, ok := e.next.records[id{k, key}]; ok {
		delete(e.next.records, id{k, key})
		e.next.removed = append(e.next.removed, removal{k, key, e.next.head.Sequence})
		e.changed = true
	}
}

// Replace makes records the only ones of a kind; those of other kinds in the list are passed over.
func (e *Edit) Replace(k Kind, records []Record) {
	keep := map[id]bool{}
	for _, r := range records {
		if r.Kind == k {
			keep[r.id()] = true
			e.Put(r)
		}
	}
	for i := range e.next.records {
		if i.kind == k && !keep[i] {
			e.Remove(k, i.key)
		}
	}
}

// edit gives the set that a change makes of this one, unsigned, or nil when it changes nothing.
func (s *set) edit(change func(*Edit)) (*set, error) {
	next := &set{head: Head{Sequence: s.head.Sequence + 1}, records: maps.Clone(s.records), floor: s.floor, removed: slices.Clone(s.removed)}
	e := &Edit{next: next}
	change(e)
	if !e.changed {
		return nil, nil
	}
	next.trim()
	for _, r := range next.records {
		if err := r.Check(); err != nil {
			return nil, agentbox.Errorf(agentbox.Invalid, "%w", err)
		}
	}
	d, size, err := digestOf(next.records)
	if err == nil && (len(next.records) > MaxRecords || size > MaxBytes) {
		err = agentbox.Errorf(agentbox.NoSpace, "this machine's catalogue would have %d records of %d bytes (at most %d and %d)",
			len(next.records), size, MaxRecords, MaxBytes)
	}
	next.head.Digest = d
	return next, err
}
