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

// removal says that a record was removed at a sequence number. It is not signed: if one is left
// out, the digest differs.
type removal struct {
	Kind     Kind   `json:"kind"`
	Key      string `json:"key"`
	Sequence uint64 `json:"sequence"`
}

// check tells whether a removal may be in a delta, as an error of code Corrupt. It is kept, and
// passed on to others, although its owner has not signed it.
func (r removal) check(d Delta) error {
	if !isText(r.Key, MaxKey) || !isText(string(r.Kind), MaxKey) || r.Sequence <= d.Since || r.Sequence > d.Head.Sequence {
		return corrupt("the catalogue of %s: %s %.80q was not removed between %d and %d", d.Head.Owner.Short(), r.Kind, r.Key, d.Since, d.Head.Sequence)
	}
	return nil
}

// set is one catalogue as one peer has it. It is immutable, as apply and edit return new ones, so
// it may be read without a lock.
type set struct {
	head Head
	// records are what the head's digest covers.
	records map[id]Record
	// removed are the last removals, the oldest first. They are complete from the sequence number
	// floor on.
	removed []removal
	floor   uint64
	// extra are the records of later kinds, which extraHead's digest covers.
	extraHead Head
	extra     map[id]Record
}

// Delta is the difference from a set at one sequence number to its head, or a whole set. It is the
// answer to a fetch, and the form on disk.
type Delta struct {
	Head    Head     `json:"head"`
	Since   uint64   `json:"since"` // 0: all of it
	Records records  `json:"records,omitempty"`
	Removed removals `json:"removed,omitempty"`
	// Extra is nil if the reader has the newest one.
	Extra *Extra `json:"extra,omitempty"`
}

// records, removals and heads are what a peer sends of each: no more of them than a message may
// have.
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

// since returns the difference for a reader at a sequence number, which has the Extra of another.
// It is the whole set for 0, for a number that was never used, or when the removals since then are
// not known any more.
func (s *set) since(n, extra uint64) Delta {
	if n == 0 || n < s.floor || n > s.head.Sequence {
		return Delta{Head: s.head, Records: sorted(s.records), Extra: s.extraSince(extra)}
	}
	d := Delta{Head: s.head, Since: n, Extra: s.extraSince(extra)}
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

// apply returns the set that results from a delta. The head's signature has been verified; apply
// checks that the records are those that it covers.
func (s *set) apply(d Delta) (*set, error) {
	next := &set{head: d.Head, records: map[id]Record{}, floor: d.Head.Sequence, extraHead: s.extraHead, extra: s.extra}
	next.head.Extra = 0
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
	if err := next.takeExtra(d.Extra); err != nil {
		return nil, err
	}
	return next, next.check()
}

// check is Corrupt unless the set is within its bounds and matches its head.
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

// trim forgets the oldest removals. Readers from before them get the whole set.
func (s *set) trim() {
	if over := len(s.removed) - maxRemoved; over > 0 {
		s.floor = max(s.floor, s.removed[over-1].Sequence)
		s.removed = slices.Clone(s.removed[over:])
	}
}

// Edit changes one's own catalogue. All its changes become visible at once. It is valid during the
// call of Update that provided it.
type Edit struct {
	next *set
	// changed: next differs from the old set, or a claim was renewed; extra: in records of later
	// kinds.
	changed, extra bool
}

// Put adds a record, or replaces the one of the same kind and key. An identical one keeps its
// number, and nothing is announced.
func (e *Edit) Put(r Record) {
	old, ok := e.next.of(r.Kind)[r.id()]
	r.Changed = old.Changed
	if ok && reflect.DeepEqual(old, r) {
		return
	}
	e.Touch(r)
}

// Touch is Put that counts as a change even without a difference, to renew a claim.
func (e *Edit) Touch(r Record) {
	r.Changed = e.next.head.Sequence
	e.next.of(r.Kind)[r.id()] = r
	e.changed = true
	e.extra = e.extra || !kinds[r.Kind].first
}

// Remove removes a record, if it is there.
func (e *Edit) Remove(k Kind, key string) {
	i := id{k, key}
	if _, ok := e.next.records[i]; ok {
		delete(e.next.records, i)
		e.next.removed = append(e.next.removed, removal{k, key, e.next.head.Sequence})
		e.changed = true
	}
	if _, ok := e.next.extra[i]; ok {
		delete(e.next.extra, i)
		e.changed, e.extra = true, true
	}
}

// Replace makes records the only ones of a kind; it ignores those of other kinds in the list.
func (e *Edit) Replace(k Kind, records []Record) {
	keep := map[id]bool{}
	for _, r := range records {
		if r.Kind == k {
			keep[r.id()] = true
			e.Put(r)
		}
	}
	for i := range e.next.of(k) {
		if i.kind == k && !keep[i] {
			e.Remove(k, i.key)
		}
	}
}

// edit returns the set that results from a change, unsigned, or nil without an effect.
func (s *set) edit(change func(*Edit)) (*set, error) {
	next := &set{head: Head{Sequence: s.head.Sequence + 1}, records: maps.Clone(s.records), floor: s.floor, removed: slices.Clone(s.removed), extraHead: s.extraHead, extra: map[id]Record{}}
	maps.Copy(next.extra, s.extra)
	e := &Edit{next: next}
	change(e)
	if !e.changed {
		return nil, nil
	}
	next.trim()
	if err := next.checkOwn(); err != nil {
		return nil, err
	}
	if e.extra {
		if err := next.headExtra(); err != nil {
			return nil, err
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

// checkOwn checks the records of this machine; the error has code Invalid.
func (s *set) checkOwn() error {
	for _, all := range []map[id]Record{s.records, s.extra} {
		for _, r := range all {
			err := r.Check()
			if err == nil && !r.understood() {
				err = corrupt("a record of unknown kind %.20q", r.Kind)
			}
			if err != nil {
				return agentbox.Classify(agentbox.Invalid, "%w", err)
			}
		}
	}
	return nil
}
