package artifact

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"agentbox/agentbox"
)

// The types in a statement.
const (
	// StatementType is in-toto's, from its specification; PredicateType is ours.
	StatementType = "https://in-toto.io/Statement/v1"
	PredicateType = "urn:agentbox:task-artifacts:v1"
	payloadType   = "application/vnd.in-toto+json"
)

// Statement is in-toto's, version 1.
type Statement struct {
	Type          string    `json:"_type"`
	Subject       []Subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     Predicate `json:"predicate"`
}

// Subject is one file. Digest has "sha256", in hex. Size is in bytes; in-toto leaves it to us.
type Subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
	Size   int64             `json:"size"`
}

// Predicate says where the files came from. The names of the fields are part of what is signed, so
// they must not change.
type Predicate struct {
	Created time.Time `json:"created_at"`
	Task    string    `json:"task_id"`
	Attempt int       `json:"attempt"`
	Agent   string    `json:"agent_identity,omitempty"`
	Command []string  `json:"command"`
	Repo    string    `json:"repo"` // the project
	Commit  string    `json:"commit,omitempty"`
	Work    string    `json:"work,omitempty"` // the ref of the task's work

	Environment Environment `json:"environment_identity"`
}

// Environment is what the box was.
type Environment struct {
	Image     string `json:"image"`
	Isolation string `json:"isolation"`
	Setup     string `json:"setup,omitempty"`       // key of what setup made
	Snapshot  string `json:"snapshot_id,omitempty"` // the commit with the task's work, when there is any

	Lockfiles map[string]string `json:"lockfiles,omitempty"` // path -> sha256:<hex>, as they were when the files were taken
}

// NewStatement is a statement about files from Collect. It checks nothing.
func NewStatement(files []File, p Predicate) Statement {
	s := Statement{Type: StatementType, PredicateType: PredicateType, Predicate: p, Subject: []Subject{}}
	for _, f := range files {
		s.Subject = append(s.Subject, Subject{Name: f.Name, Digest: map[string]string{"sha256": f.SHA256}, Size: f.Size})
	}
	return s
}

// Sign puts a statement into an envelope, which is JSON that people can read, too.
func Sign(ctx context.Context, s Statement, key ed25519.PrivateKey) ([]byte, error) {
	body, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	signer, err := dsse.NewEnvelopeSigner(hostKey{key, key.Public().(ed25519.PublicKey)})
	if err != nil {
		return nil, err
	}
	e, err := signer.SignPayload(ctx, payloadType, body)
	if err != nil {
		return nil, err
	}
	return json.MarshalIndent(e, "", "  ")
}

// Bounds of what Open reads.
const (
	MaxEnvelope   = 32 << 20 // for as many names as are kept, each of the greatest length and escaped
	maxSignatures = 8
)

// Open reads an envelope and returns its statement, if key has signed it. The error is Corrupt for
// any envelope that is not one of ours, signed by key and by at most maxSignatures in all. Nothing
// of the statement is trusted before the signature is verified.
func Open(ctx context.Context, r io.Reader, key ed25519.PublicKey) (Statement, error) {
	b, err := io.ReadAll(io.LimitReader(r, MaxEnvelope+1))
	if err != nil {
		return Statement{}, err
	}
	if len(b) > MaxEnvelope {
		return Statement{}, damaged(fmt.Errorf("it is larger than %d MiB", MaxEnvelope>>20))
	}
	var e dsse.Envelope
	if err := decode(b, &e); err != nil {
		return Statement{}, damaged(err)
	}
	// Before any signature is verified: each costs time, and the file sets their number.
	if e.PayloadType != payloadType || len(e.Signatures) == 0 || len(e.Signatures) > maxSignatures {
		return Statement{}, damaged(errors.New("it is no signed statement"))
	}
	verifier, err := dsse.NewEnvelopeVerifier(hostKey{public: key})
	if err != nil {
		return Statement{}, err
	}
	if _, err := verifier.Verify(ctx, &e); err != nil {
		return Statement{}, agentbox.Errorf(agentbox.Corrupt, "the statement of the artifacts is not signed by this host: %w", err).
			WithHint("it was changed, or made on another machine")
	}
	body, err := e.DecodeB64Payload()
	if err != nil {
		return Statement{}, damaged(err)
	}
	var s Statement
	if err := decode(body, &s); err != nil {
		return Statement{}, damaged(err)
	}
	return s, s.check()
}

// damaged is the error for a statement that cannot be read.
func damaged(err error) error {
	return agentbox.Errorf(agentbox.Corrupt, "the statement of the artifacts is damaged: %w", err)
}

func decode(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows it")
	}
	return nil
}

// check checks the types of a statement and its names, which become names of files here.
func (s Statement) check() error {
	if s.Type != StatementType || s.PredicateType != PredicateType {
		return damaged(fmt.Errorf("it is of type %.80q about %.80q", s.Type, s.PredicateType))
	}
	for _, f := range s.Subject {
		if sum, err := hex.DecodeString(f.Digest["sha256"]); err != nil || len(sum) != sha256.Size || !validName(f.Name) {
			return damaged(fmt.Errorf("%.80q is no file", f.Name))
		}
	}
	return nil
}

// hostKey signs and verifies for dsse. private is not needed to verify.
type hostKey struct {
	private ed25519.PrivateKey
	public  ed25519.PublicKey
}

// Sign implements dsse.Signer.
func (h hostKey) Sign(_ context.Context, data []byte) ([]byte, error) {
	return ed25519.Sign(h.private, data), nil
}

// Verify implements dsse.Verifier.
func (h hostKey) Verify(_ context.Context, data, sig []byte) error {
	if !ed25519.Verify(h.public, data, sig) {
		return errors.New("the signature is another's")
	}
	return nil
}

// KeyID is the hash of the host's public key.
func (h hostKey) KeyID() (string, error) {
	sum := sha256.Sum256(h.public)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// Public is the key that signatures are verified by.
func (h hostKey) Public() crypto.PublicKey { return h.public }
