package token

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/durable"
)

// Store is the tokens in a file. Of each it keeps the hash only: the secret has 256 random bits, so
// a plain hash of it can be neither guessed nor reversed.
type Store struct {
	Path string
	mu   sync.Mutex
}

// entry is a token at rest.
type entry struct {
	api.Token
	Hash string `json:"hash"` // SHA-256 of the token's text, hexadecimal
}

// prefix begins each token, so that scanners for leaked secrets can find them.
const prefix = "agentbox_"

// Create makes a token. The error is Exists for a name that is taken, and Invalid for a scope that
// there is not.
func (s *Store) Create(t api.Token, valid time.Duration) (api.NewToken, error) {
	if !slices.Contains(api.Scopes, t.Scope) {
		return api.NewToken{}, agentbox.Errorf(agentbox.Invalid, "%q is no scope", t.Scope).WithHint("it is read, run or admin")
	}
	if valid < 0 {
		return api.NewToken{}, agentbox.Errorf(agentbox.Invalid, "a token cannot be valid for %s", valid)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.read()
	if err != nil {
		return api.NewToken{}, err
	}
	if t.Name != "" && slices.ContainsFunc(all, func(e entry) bool { return e.Name == t.Name }) {
		return api.NewToken{}, agentbox.Errorf(agentbox.Exists, "there is a token %q already", t.Name).WithHint("agentbox token rm %s removes it", t.Name)
	}
	id, secret := make([]byte, 4), make([]byte, 32)
	rand.Read(id)
	rand.Read(secret)
	t.ID, t.Created = hex.EncodeToString(id), time.Now().UTC().Truncate(time.Second)
	if valid > 0 {
		t.Expires = t.Created.Add(valid)
	}
	text := prefix + t.ID + "_" + base64.RawURLEncoding.EncodeToString(secret)
	return api.NewToken{Token: t, Text: text}, s.write(append(all, entry{t, hash(text)}))
}

// List returns all tokens, oldest first.
func (s *Store) List() ([]api.Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.read()
	out := make([]api.Token, len(all))
	for i, e := range all {
		out[i] = e.Token
	}
	return out, err
}

// Remove removes a token by its ID or its name.
func (s *Store) Remove(name string) (api.Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.read()
	if err != nil {
		return api.Token{}, err
	}
	i := slices.IndexFunc(all, func(e entry) bool { return e.ID == name || name != "" && e.Name == name })
	if i < 0 {
		return api.Token{}, agentbox.Errorf(agentbox.NotFound, "there is no token %q", name).WithHint("agentbox token ls lists them")
	}
	was := all[i].Token
	return was, s.write(slices.Delete(all, i, i+1))
}

// Check returns the token of a text. The error is Unauthorized, and the same for every text that is
// not a token.
func (s *Store) Check(text string) (api.Token, error) {
	s.mu.Lock()
	all, err := s.read()
	s.mu.Unlock()
	if err != nil {
		return api.Token{}, err
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(text, prefix), "_")
	want := hash(text)
	for _, e := range all {
		if e.ID == id && subtle.ConstantTimeCompare([]byte(e.Hash), []byte(want)) == 1 {
			return e.Token, e.expired()
		}
	}
	return api.Token{}, agentbox.Errorf(agentbox.Unauthorized, "no such token").WithHint("agentbox token create makes one; send it as Authorization: Bearer TOKEN")
}

func (e entry) expired() error {
	if e.Expires.IsZero() || time.Now().Before(e.Expires) {
		return nil
	}
	return agentbox.Errorf(agentbox.Unauthorized, "the token %s expired at %s", e.ID, e.Expires.Format(time.RFC3339)).
		WithHint("agentbox token create makes another")
}

// Seal returns the seal of a token on a text, with which a holder of the token can let others do one
// thing only. The hash is as secret as the token: it leaves this store in no other way.
func (s *Store) Seal(id, text string) (api.Seal, error) {
	s.mu.Lock()
	all, err := s.read()
	s.mu.Unlock()
	i := slices.IndexFunc(all, func(e entry) bool { return e.ID == id })
	if err != nil || i < 0 {
		return api.Seal{}, cmp.Or(err, error(agentbox.Errorf(agentbox.NotFound, "there is no token %q", id)))
	}
	mac := hmac.New(sha256.New, []byte(all[i].Hash))
	mac.Write([]byte(text))
	return api.Seal{Token: all[i].Token, Seal: hex.EncodeToString(mac.Sum(nil))}, all[i].expired()
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func (s *Store) read() (all []entry, err error) { return all, durable.ReadJSON(s.Path, &all) }

func (s *Store) write(all []entry) error { return durable.WriteJSON(s.Path, all, 0o600) }
