package identity

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"math"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"agentbox/agentbox"
)

// Role is a right that a member has beyond membership.
type Role string

// The roles. Others give no right here: they are of a later build, kept and passed on.
const (
	Builder Role = "builder" // what it built is used by the others
	Admin   Role = "admin"   // may invite and revoke
)

// MaxMemberName bounds the name of a member, in bytes.
const MaxMemberName = 64

// Entry is one signed line of a member list: what one signer states about one member. It never
// changes: a later entry of the same signer with a greater serial number replaces it. The fields
// are in the order in which they are signed.
type Entry struct {
	Team      agentbox.Digest `json:"team"` // of the root's public key
	Key       []byte          `json:"key"`  // the member's ed25519 public key
	Name      string          `json:"name"` // for people; need not be unique
	Roles     []Role          `json:"roles,omitempty"`
	Serial    uint64          `json:"serial"`            // the greatest one counts
	Revoked   bool            `json:"revoked,omitempty"` // signed by the member itself: it left
	Issued    time.Time       `json:"issued"`            // UTC, whole seconds; for people
	Expires   time.Time       `json:"expires,omitzero"`  // UTC, whole seconds; zero: never
	Signer    []byte          `json:"signer"`            // public key of the root, an admin, or the member
	Signature []byte          `json:"signature"`

	// line is the entry as its signer wrote it, if there is more in it than the fields above; nil
	// otherwise.
	line []byte
}

// Bounds of an entry, encoded, of its roles, and of one of these, in bytes but for the second.
const (
	maxEntry = 4 << 10
	maxRoles = 16
	maxRole  = 32
)

// fields are the fields of an entry that this build understands.
type fields Entry

// UnmarshalJSON reads an entry, and keeps what this build does not understand.
func (e *Entry) UnmarshalJSON(b []byte) error {
	if len(b) > maxEntry {
		return corrupt("member list: an entry of %d bytes, at most %d", len(b), maxEntry)
	}
	var f fields
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	line, err := UnknownPart(b, f)
	*e = Entry(f)
	e.line = line
	return err
}

// MarshalJSON writes an entry as its signer wrote it.
func (e Entry) MarshalJSON() ([]byte, error) {
	if e.line != nil {
		return e.line, nil
	}
	return json.Marshal(fields(e))
}

// The greatest serial numbers of entries that a member signs about itself, and that an admin signs.
// The root key has the rest to itself, so nobody can use up the numbers with which a member's roles
// are changed, nor those with which it leaves. They are far beyond what anybody ever counts to.
const (
	maxLeaveSerial = 1 << 62
	maxAdminSerial = 1 << 61
)

// MaxSerial is the greatest serial number of what a signer says of a member, in a team.
func MaxSerial(team agentbox.Digest, signer, member ed25519.PublicKey) uint64 {
	switch {
	case len(signer) == ed25519.PublicKeySize && TeamOf(signer) == team:
		return math.MaxUint64
	case bytes.Equal(signer, member):
		return maxLeaveSerial
	}
	return maxAdminSerial
}

// entryDomain keeps a signature over an entry from being valid elsewhere. The digit: version.
const entryDomain = "agentbox member 1\n"

// Sign returns the entry with signer and signature. Its roles are sorted without duplicates, and
// its times rounded down to whole seconds. The error says what is malformed.
func (e Entry) Sign(key ed25519.PrivateKey) (Entry, error) {
	e.line = nil // what it says is signed anew
	e.Signer = key.Public().(ed25519.PublicKey)
	e.Issued, e.Expires = e.Issued.UTC().Truncate(time.Second), e.Expires.UTC().Truncate(time.Second)
	slices.Sort(e.Roles)
	e.Roles = slices.Compact(e.Roles)
	if err := e.check(); err != nil {
		return Entry{}, err
	}
	signed, err := e.signed()
	if err != nil {
		return Entry{}, err
	}
	e.Signature = ed25519.Sign(key, signed)
	return e, nil
}

// Verify checks that the entry is well-formed and signed by its signer; the error has code Corrupt.
// Whether the signer had the right to sign it is decided by the List.
func (e Entry) Verify() error {
	if err := e.check(); err != nil {
		return err
	}
	// The first builds refuse a list with such an entry. Only who may add members can do that to them.
	if e.line != nil && bytes.Equal(e.Signer, e.Key) {
		return corrupt("member %s: it says more of itself than that it left", e.Peer().Short())
	}
	signed, err := e.signed()
	if err != nil {
		return err
	}
	if !ed25519.Verify(e.Signer, signed, e.Signature) {
		return corrupt("member %s: the signature is not its signer's", e.Peer().Short())
	}
	return nil
}

// Peer is the member that the entry is about.
func (e Entry) Peer() PeerID { return PeerOf(e.Key) }

// signed returns the bytes that the signature covers: the entry with null in place of the
// signature, which is the last field in every build.
func (e Entry) signed() ([]byte, error) {
	signature, err := json.Marshal(e.Signature)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(e)
	rest, ok := bytes.CutSuffix(b, append(signature, '}'))
	if rest, named := bytes.CutSuffix(rest, []byte(`,"signature":`)); err == nil && ok && named {
		return append(append([]byte(entryDomain), rest...), `,"signature":null}`...), nil
	}
	return nil, corrupt("member %s: the signature is not its last field", e.Peer().Short())
}

// check verifies everything in an entry but its signature.
func (e Entry) check() error {
	switch {
	case len(e.Key) != ed25519.PublicKeySize, len(e.Signer) != ed25519.PublicKeySize:
		return corrupt("member list: a key that is not an ed25519 key")
	case e.Team.IsZero():
		return corrupt("member %s: of no team", e.Peer().Short())
	case e.Serial == 0:
		return corrupt("member %s: has no serial number", e.Peer().Short())
	case e.Serial > MaxSerial(e.Team, e.Signer, e.Key):
		return corrupt("member %s: its serial number %d is too large", e.Peer().Short(), e.Serial)
	case len(e.Roles) > maxRoles || !slices.IsSorted(e.Roles) || len(slices.Compact(slices.Clone(e.Roles))) != len(e.Roles):
		return corrupt("member %s: roles are not sorted", e.Peer().Short())
	}
	for _, r := range e.Roles {
		if CheckMemberName(string(r)) != nil || len(r) > maxRole {
			return corrupt("member %s: a role that is not text of 1 to %d bytes", e.Peer().Short(), maxRole)
		}
	}
	return CheckMemberName(e.Name)
}

// CheckMemberName checks that a name may be a member's: 1 to MaxMemberName bytes, printable, one
// line. Otherwise it is Invalid. Others see the name in their terminals.
func CheckMemberName(name string) error {
	if name == "" || len(name) > MaxMemberName || !utf8.ValidString(name) {
		return agentbox.Errorf(agentbox.Invalid, "a member's name has 1 to %d bytes", MaxMemberName)
	}
	for _, r := range name {
		if !unicode.IsPrint(r) {
			return agentbox.Errorf(agentbox.Invalid, "%q is not a member's name (printable text)", name)
		}
	}
	return nil
}

func corrupt(format string, args ...any) error {
	return agentbox.Errorf(agentbox.Corrupt, format, args...)
}
