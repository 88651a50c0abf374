package blob

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"time"

	"agentbox/agentbox"
)

// Scope says where a name may be used.
type Scope string

// The scopes.
const (
	Team  Scope = "team"  // made by a clean run of a trusted peer, for use by others
	Local Scope = "local" // made on this host, for use on it
)

// Limits of a name, in bytes.
const (
	MaxNamespace = 32
	MaxKey       = 1024
	maxName      = 16 << 10
)

// Name states that a key stands for a manifest. Its producer signs it. The fields are in the order
// in which they are signed, so neither the order nor the tags may change within a version.
type Name struct {
	Version int `json:"version"` // 1
	// Namespace and Key are what is looked up. CheckKey says what they may contain.
	Namespace string          `json:"namespace"`
	Key       string          `json:"key"`
	Manifest  agentbox.Digest `json:"manifest"`
	Scope     Scope           `json:"scope"`
	Created   time.Time       `json:"created"`           // UTC, whole seconds
	Expires   time.Time       `json:"expires,omitzero"`  // UTC, whole seconds; zero: never
	Producer  []byte          `json:"producer"`          // the ed25519 public key of the signer
	Signature []byte          `json:"signature"`         // over nameDomain and the JSON of the rest
	Comment   string          `json:"comment,omitempty"` // over nameDomain and the JSON of all other fields
}

const nameVersion = 1

// nameDomain prevents the use of a name's signature for anything else.
const nameDomain = "agentbox name 1\n"

// Sign returns the name with version, producer and signature filled in, and its times rounded down
// to whole seconds. The error is Invalid when another field is malformed.
func (n Name) Sign(key ed25519.PrivateKey) (Name, error) {
	n.Version, n.Producer = nameVersion, key.Public().(ed25519.PublicKey)
	n.Created, n.Expires = n.Created.UTC().Truncate(time.Second), n.Expires.UTC().Truncate(time.Second)
	if err := n.check(); err != nil {
		return Name{}, agentbox.Classify(agentbox.Invalid, "%w", err)
	}
	signed, err := n.signed()
	if err != nil {
		return Name{}, err
	}
	n.Signature = ed25519.Sign(key, signed)
	return n, nil
}

// Verify returns an error of code Corrupt unless the name is well-formed and signed by its producer.
// The caller decides whether to trust the producer, and checks whether the name has expired.
func (n Name) Verify() error {
	if err := n.check(); err != nil {
		return err
	}
	signed, err := n.signed()
	if err != nil {
		return err
	}
	if !ed25519.Verify(n.Producer, signed, n.Signature) {
		return invalid("name %s/%s: the signature is not its producer's", n.Namespace, n.Key)
	}
	return nil
}

// Expired reports whether the name has expired at t.
func (n Name) Expired(t time.Time) bool { return !n.Expires.IsZero() && !t.Before(n.Expires) }

func (n Name) signed() ([]byte, error) {
	n.Signature = nil
	b, err := json.Marshal(n)
	return append([]byte(nameDomain), b...), err
}

// check returns an error of code Corrupt unless everything in a name but its signature is valid.
func (n Name) check() error {
	switch {
	case n.Version != nameVersion:
		return invalid("name: version %d is not known", n.Version)
	case n.Manifest.IsZero():
		return invalid("name %s/%s has no manifest", n.Namespace, n.Key)
	case n.Scope != Team && n.Scope != Local:
		return invalid("name %s/%s: unknown scope %q", n.Namespace, n.Key, n.Scope)
	case len(n.Producer) != ed25519.PublicKeySize:
		return invalid("name %s/%s: its producer is not an ed25519 key", n.Namespace, n.Key)
	case len(n.Comment) > MaxKey || !printable(n.Comment):
		return invalid("name %s/%s: its comment is not text of at most %d bytes", n.Namespace, n.Key, MaxKey)
	}
	if err := CheckKey(n.Namespace, n.Key); err != nil {
		return invalid("name: %w", err)
	}
	return nil
}

// CheckKey returns an error of code Invalid unless namespace and key may be used in a name. A
// namespace is a short lower-case word. A key is printable text; it never becomes part of a path.
func CheckKey(namespace, key string) error {
	if namespace == "" || len(namespace) > MaxNamespace {
		return agentbox.Errorf(agentbox.Invalid, "a namespace has 1 to %d bytes, not %d", MaxNamespace, len(namespace))
	}
	for _, c := range []byte(namespace) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return agentbox.Errorf(agentbox.Invalid, "%q is not a namespace (lower-case letters, digits, hyphens)", namespace)
		}
	}
	if key == "" || len(key) > MaxKey {
		return agentbox.Errorf(agentbox.Invalid, "a key has 1 to %d bytes, not %d", MaxKey, len(key))
	}
	if !printable(key) {
		return agentbox.Errorf(agentbox.Invalid, "%q is not a key (printable text)", key)
	}
	return nil
}

// Encode returns the only encoding of a signed name.
func (n Name) Encode() ([]byte, error) { return json.Marshal(n) }

// DecodeName decodes what Encode wrote, and verifies it. All errors have the code Corrupt.
func DecodeName(b []byte) (Name, error) {
	if len(b) > maxName {
		return Name{}, invalid("a name has at most %d bytes, not %d", maxName, len(b))
	}
	var n Name
	if err := json.Unmarshal(b, &n); err != nil {
		return Name{}, invalid("name: %w", err)
	}
	// Only one form is accepted, so that no two readers understand a signed name differently.
	if same, err := n.Encode(); err != nil || !bytes.Equal(same, b) {
		return Name{}, invalid("name: not in the form in which names are written")
	}
	return n, n.Verify()
}
