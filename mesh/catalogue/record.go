package catalogue

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
)

// Kind says what a record is about.
type Kind string

// The kinds.
const (
	Image    Kind = "image"    // Key: the image's digest in hex; Alias: its recipe
	Setup    Kind = "setup"    // Key: FAMILY/KEY of what setup made
	Kernel   Kind = "kernel"   // Key: its name; Digest: of its file
	Template Kind = "template" // Key: its fingerprint
	Task     Kind = "task"     // Key: the task's id; Text: what people are told of it
	Box      Kind = "box"      // Key: the box's id; Text: what people are told of it
	Offer    Kind = "offer"    // Key: TASK/ATTEMPT that waits for a machine; Text: what it needs
	Claim    Kind = "claim"    // Key: what is about to be made; TTL: for how long
)

// kinds are those that this build understands. Records of others are kept and passed on, and not
// used. A kind that is added here travels in Extra.
var kinds = map[Kind]struct {
	first bool // the first builds understand it, which refuse a catalogue with any other kind
	ttl   bool // a record has a time to live
}{
	Image: {first: true}, Setup: {first: true}, Kernel: {first: true}, Template: {first: true}, Task: {first: true}, Box: {first: true},
	Claim: {first: true, ttl: true},
	Offer: {},
}

// Bounds of a catalogue, in bytes except MaxRecords and maxTTL. Every member has all catalogues
// in memory.
const (
	MaxRecords = 4096
	MaxBytes   = 2 << 20 // of all records, encoded
	MaxKey     = 512
	MaxText    = 512
	MaxName    = 4 << 10
	MaxKind    = 32
	MaxLine    = 16 << 10 // of one record, encoded
	maxTTL     = 3600     // seconds
)

// Record is one line of a catalogue, identified by Kind and Key. Which other fields are set depends
// on the kind.
type Record struct {
	Kind  Kind   `json:"kind"`
	Key   string `json:"key"`
	Alias string `json:"alias,omitempty"` // another key by which it is found
	// Manifest is the subject of the session of mesh/exchange that gets its bytes.
	Manifest agentbox.Digest `json:"manifest,omitzero"`
	Digest   agentbox.Digest `json:"digest,omitzero"` // of the thing itself
	// About is the manifest of its description, which is small and fetched first.
	About agentbox.Digest `json:"about,omitzero"`
	Size  int64           `json:"size,omitempty"` // bytes
	Name  []byte          `json:"name,omitempty"` // the signed name (cachestore/blob) under which its owner keeps it
	Text  string          `json:"text,omitempty"` // for people
	TTL   int             `json:"ttl,omitempty"`  // seconds; claims only
	// Changed is the catalogue's sequence number when the record was written. It tells which
	// records a reader lacks.
	Changed uint64 `json:"changed"`

	// line is the record as its owner wrote it, if there is more in it than the fields above; nil
	// otherwise. It is what the owner signed, so it is passed on as it is.
	line []byte
}

// fields are the fields of a record that this build understands.
type fields Record

// UnmarshalJSON reads a record. Of one of an unknown kind, it understands Kind, Key and Changed.
func (r *Record) UnmarshalJSON(b []byte) error {
	if len(b) > MaxLine {
		return corrupt("a record of %d bytes, at most %d", len(b), MaxLine)
	}
	var head struct {
		Kind    Kind   `json:"kind"`
		Key     string `json:"key"`
		Changed uint64 `json:"changed"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return err
	}
	f := fields{Kind: head.Kind, Key: head.Key, Changed: head.Changed}
	if _, ok := kinds[head.Kind]; ok {
		f = fields{}
		if err := json.Unmarshal(b, &f); err != nil {
			return err
		}
	}
	line, err := identity.UnknownPart(b, f)
	*r = Record(f)
	r.line = line
	return err
}

// MarshalJSON writes a record, of a peer's the line that it signed.
func (r Record) MarshalJSON() ([]byte, error) {
	if r.line != nil {
		return r.line, nil
	}
	return json.Marshal(fields(r))
}

// id identifies a record within a catalogue.
type id struct {
	kind Kind
	key  string
}

func (r Record) id() id { return id{r.Kind, r.Key} }

// compare orders records by kind and key, the order in which they are hashed.
func compare(a, b Record) int {
	return cmp.Or(strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.Key, b.Key))
}

func (r Record) understood() bool {
	_, ok := kinds[r.Kind]
	return ok
}

// Check verifies that a record may be in a catalogue; the error has code Corrupt. Its texts are
// printable and within bounds, and only a claim has a time to live.
func (r Record) Check() error {
	kind, understood := kinds[r.Kind]
	switch {
	case r.Kind == "" || !isText(string(r.Kind), MaxKind):
		return corrupt("a record whose kind is not text of 1 to %d bytes", MaxKind)
	case understood && !kind.ttl && r.TTL != 0:
		return corrupt("a record of kind %s with a time to live", r.Kind)
	case kind.ttl && (r.TTL < 1 || r.TTL > maxTTL):
		return corrupt("a claim for %d seconds, at most %d", r.TTL, maxTTL)
	case r.Key == "" || !isText(r.Key, MaxKey):
		return corrupt("a %s whose key is not text of 1 to %d bytes", r.Kind, MaxKey)
	case !isText(r.Alias, MaxKey), !isText(r.Text, MaxText):
		return corrupt("%s %.80q: text that is too long or not printable", r.Kind, r.Key)
	case len(r.Name) > MaxName:
		return corrupt("%s %.80q: a name of %d bytes, at most %d", r.Kind, r.Key, len(r.Name), MaxName)
	case r.Size < 0:
		return corrupt("%s %.80q: has no size", r.Kind, r.Key)
	}
	return nil
}

// isText reports whether a text is printable, and has at most that many bytes.
func isText(s string, limit int) bool {
	return len(s) <= limit && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// digestOf is what a head signs: the records in order, a line of JSON each, with their size.
func digestOf(records map[id]Record) (agentbox.Digest, int, error) {
	h := sha256.New()
	size := 0
	for _, r := range sorted(records) {
		b, err := json.Marshal(r)
		if err != nil {
			return agentbox.Digest{}, 0, err
		}
		h.Write(append(b, '\n'))
		size += len(b) + 1
	}
	return agentbox.Digest(h.Sum(nil)), size, nil
}

func sorted(records map[id]Record) []Record { return slices.SortedFunc(maps.Values(records), compare) }

func corrupt(format string, args ...any) error {
	return agentbox.Errorf(agentbox.Corrupt, format, args...)
}
