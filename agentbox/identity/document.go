package identity

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"agentbox/agentbox"
)

// Document is the identity of a box or task. Two with the same content but Created and Signature
// are of the same environment.
type Document struct {
	Version int    `json:"version"`
	Project string `json:"project"`
	Branch  string `json:"branch,omitempty"` // without refs/heads/
	Commit  string `json:"commit,omitempty"` // that was checked out

	Image     agentbox.Digest    `json:"image,omitzero"` // with tools and what setup made; zero if it is not known
	Setup     *Setup             `json:"setup,omitempty"`
	Lockfiles map[string]string  `json:"lockfiles,omitempty"` // path: sha256:<hex>, in the snapshot
	Kernel    string             `json:"kernel,omitempty"`    // of the guest
	Arch      string             `json:"arch"`
	Isolation agentbox.Isolation `json:"isolation,omitempty"`
	// Policy is the digest of what was approved of the repository's requests, "" for none.
	Policy string `json:"policy,omitempty"`
	// Environment and Secrets are names; no value is in a document.
	Environment []string `json:"environment,omitempty"`
	Secrets     []string `json:"secrets,omitempty"`

	Snapshot agentbox.Digest `json:"snapshot,omitzero"`
	Task     string          `json:"task,omitempty"`
	Box      string          `json:"box,omitempty"` // its name
	Agent    string          `json:"agent,omitempty"`
	Created  time.Time       `json:"created"`
	Peer     string          `json:"peer"` // hex of the hash of the key that signed it
	// Signature is over domain and the document without it.
	Signature []byte `json:"signature,omitempty"`
}

// Setup names what setup made. Result is the manifest of what the box began with.
type Setup struct {
	Key    agentbox.Digest `json:"key"`
	Result agentbox.Digest `json:"result,omitzero"`
}

const (
	version = 1
	domain  = "agentbox identity 1\n"
	// MaxBytes bounds an encoded document.
	MaxBytes = 64 << 10
	maxText  = 1 << 10
)

// Sign completes a document and returns it encoded, as Parse takes it: without lockfiles whose names
// cannot be shown. JSON would replace their bytes by others, over which there is no signature. More than
// fits is an error.
func (d Document) Sign(key ed25519.PrivateKey) (Document, []byte, error) {
	d.Version, d.Created, d.Lockfiles = version, d.Created.UTC(), maps.Clone(d.Lockfiles)
	maps.DeleteFunc(d.Lockfiles, func(name, _ string) bool { return !isText(name) })
	d.Peer = peerOf(key.Public().(ed25519.PublicKey))
	body, err := d.signed()
	if err != nil {
		return d, nil, err
	}
	d.Signature = ed25519.Sign(key, body)
	b, err := json.Marshal(d)
	if err == nil && len(b) > MaxBytes {
		err = agentbox.Errorf(agentbox.Conflict, "the identity has %d bytes, at most %d", len(b), MaxBytes).WithHint("name fewer lockfiles: and variables in env:")
	}
	if err == nil {
		_, err = Parse(b)
	}
	return d, b, err
}

func isText(s string) bool { return len(s) <= maxText && agentbox.Printable(s) == s }

func peerOf(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:])
}

// signed is what a signature is over.
func (d Document) signed() ([]byte, error) {
	d.Signature = nil
	b, err := json.Marshal(d)
	return append([]byte(domain), b...), err
}

// ID is the digest of a document, with its signature.
func (d Document) ID() agentbox.Digest {
	b, err := json.Marshal(d)
	if err != nil {
		panic(err) // texts and times always marshal
	}
	id, _, _ := agentbox.DigestOf(bytes.NewReader(b)) // reading bytes cannot fail
	return id
}

// Verify checks that the owner of a key made the document. The error is Corrupt.
func (d Document) Verify(key ed25519.PublicKey) error {
	body, err := d.signed()
	if err == nil && len(key) == ed25519.PublicKeySize && d.Peer == peerOf(key) && ed25519.Verify(key, body, d.Signature) {
		return nil
	}
	return corrupt("it is not signed by the machine that it is said to be from")
}

// Parse reads a document that may come from another machine. The error is Corrupt. All texts are
// printable.
func Parse(b []byte) (d Document, err error) {
	if len(b) > MaxBytes {
		return d, corrupt("it has %d bytes, at most %d", len(b), MaxBytes)
	}
	if err := json.Unmarshal(b, &d); err != nil {
		return d, corrupt("%v", err)
	}
	if d.Version != version {
		return d, corrupt("version %d", d.Version)
	}
	texts := slices.Concat([]string{d.Project, d.Branch, d.Commit, d.Kernel, d.Arch, string(d.Isolation), d.Policy, d.Task, d.Box, d.Agent, d.Peer}, d.Environment, d.Secrets)
	for name, digest := range d.Lockfiles {
		texts = append(texts, name, digest)
	}
	for _, s := range texts {
		if !isText(s) {
			return d, corrupt("text that cannot be shown")
		}
	}
	if d.Project == "" || d.Commit != "" && !isHex(d.Commit) || strings.HasPrefix(d.Branch, "-") {
		return d, corrupt("project %q, branch %q, commit %q", d.Project, d.Branch, d.Commit)
	}
	return d, nil
}

func isHex(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && (len(s) == 40 || len(s) == 64)
}

func corrupt(format string, args ...any) error {
	return agentbox.Errorf(agentbox.Corrupt, "this is no identity that can be used: "+format, args...)
}
