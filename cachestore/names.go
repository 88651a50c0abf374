package cachestore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/disk"
)

// maxNameFile bounds a file in names/ and pins/, in bytes, when it is read. A pin of 256 manifests
// has under 20 KiB, a name at most 16 KiB.
const maxNameFile = 32 << 10

// Publish says that a key stands for a manifest that is here, in our name; n needs a namespace, a
// key, a manifest and a scope. A key is published once: see Take for what happens to a second
// claim.
//
// It gives the name as it was signed, its times rounded to seconds. Created may be zero: now.
// Missing when the store has no key; otherwise the errors of Take.
func (s *Store) Publish(ctx context.Context, n blob.Name) (blob.Name, error) {
	if s.cfg.Key == nil {
		return n, agentbox.Errorf(agentbox.Missing, "the store has no key to sign names with")
	}
	if n.Created.IsZero() {
		n.Created = s.cfg.Now()
	}
	n, err := n.Sign(s.cfg.Key)
	if err != nil {
		return n, err
	}
	return n, s.Take(ctx, n)
}

// Take remembers a name that somebody signed. Its manifest must be here. A name is written once:
// when the key stands for another manifest already, the one whose producer is trusted wins, the one
// that was here first when both are or neither is; the other is kept as an Alarm, and when it is
// the new one that loses, the error says Conflict. The same manifest again extends the expiry.
//
// Invalid or Corrupt when the name itself is not well-formed or its signature is not its
// producer's, NotFound when the manifest is not here. A name by a producer that is not trusted is
// kept all the same: it is not shown (Lookup), and counts from the moment the producer is trusted.
func (s *Store) Take(ctx context.Context, n blob.Name) error {
	if err := n.Verify(); err != nil {
		return err
	}
	release := s.guard.hold(n.Manifest)
	defer release()
	if err := s.known(ctx, n.Manifest); err != nil {
		return err
	}
	s.namesMu.Lock()
	defer s.namesMu.Unlock()
	old, err := s.readName(nameFile(n.Namespace, n.Key))
	switch {
	case agentbox.CodeOf(err) == agentbox.NotFound, agentbox.CodeOf(err) == agentbox.Corrupt:
		return s.writeName(n, "")
	case err != nil:
		return err
	case old.Manifest == n.Manifest:
		if s.outranks(n, old) {
			return s.writeName(n, "")
		}
		return nil
	case old.Expired(s.cfg.Now()):
		return s.writeName(n, "")
	}
	return s.contest(old, n)
}

// outranks tells whether a name is worth writing over one of the same key and manifest: it is
// trusted and the other is not, which is not shown, or both are or neither is and it ends no
// earlier.
func (s *Store) outranks(n, old blob.Name) bool {
	if trusted := s.trusts(n); trusted != s.trusts(old) {
		return trusted
	}
	return n.Expires.IsZero() || !old.Expires.IsZero() && !n.Expires.Before(old.Expires)
}

// contest settles two names for one key. Both stay on disk, because a key that gives two results
// means that a build is not reproducible or a member lies, and a person has to see both.
func (s *Store) contest(old, n blob.Name) error {
	s.log.Error("store: two results for one key", "namespace", n.Namespace, "key", n.Key, "here", old.Manifest.Short(), "new", n.Manifest.Short())
	if s.trusts(n) && !s.trusts(old) {
		return errors.Join(s.writeName(old, alarmSuffix), s.writeName(n, ""))
	}
	if err := s.writeName(n, alarmSuffix); err != nil {
		return err
	}
	return agentbox.Errorf(agentbox.Conflict, "%s/%s stands for %s already, not for %s", n.Namespace, n.Key, old.Manifest.Short(), n.Manifest.Short()).
		WithHint("one key must give one result: agentbox doctor shows both producers")
}

// trusts tells whether a name's producer is us or believed by the configuration, now.
func (s *Store) trusts(n blob.Name) bool {
	if s.cfg.Key != nil && bytes.Equal(n.Producer, s.cfg.Key.Public().(ed25519.PublicKey)) {
		return true
	}
	return s.cfg.Trusted != nil && s.cfg.Trusted(n.Producer)
}

// nameFile is the name of the file of a key in names/.
func nameFile(namespace, key string) string { return hashed(namespace, key) }

// writeName writes a name's file, or with alarmSuffix that of the name that lost. Callers hold
// namesMu.
func (s *Store) writeName(n blob.Name, suffix string) error {
	b, err := n.Encode()
	if err != nil {
		return err
	}
	err = s.hostError(disk.Replace(s.fs, s.path(namesDir, nameFile(n.Namespace, n.Key)+suffix), b))
	s.named()
	return err
}

// named tells Config.Named, which may be nil.
func (s *Store) named() {
	if s.cfg.Named != nil {
		s.cfg.Named()
	}
}

// readName reads and verifies a name, trusted or not. NotFound when there is no such file, Corrupt
// when it is damaged, or is that of another key: files that somebody moved about must not change
// what a key means.
func (s *Store) readName(file string) (blob.Name, error) {
	b, err := disk.ReadFile(s.fs, s.path(namesDir, file), maxNameFile)
	if errors.Is(err, fs.ErrNotExist) {
		return blob.Name{}, absent("no such name")
	}
	if err != nil {
		return blob.Name{}, s.hostError(err)
	}
	n, err := blob.DecodeName(b)
	if err != nil {
		return n, agentbox.Errorf(agentbox.Corrupt, "%s: %w", s.path(namesDir, file), err)
	}
	if nameFile(n.Namespace, n.Key) != strings.TrimSuffix(file, alarmSuffix) {
		return n, agentbox.Errorf(agentbox.Corrupt, "%s holds the name of another key", s.path(namesDir, file))
	}
	return n, nil
}

// Lookup gives the name of a key: NotFound when there is none, or it has expired, or its producer
// is not trusted (any more); Corrupt when its file is damaged, until the key is published again.
// That a manifest has a name does not mean that all of its chunks are here.
func (s *Store) Lookup(namespace, key string) (blob.Name, error) {
	if err := blob.CheckKey(namespace, key); err != nil {
		return blob.Name{}, err
	}
	n, err := s.readName(nameFile(namespace, key))
	if err == nil && (n.Expired(s.cfg.Now()) || !s.trusts(n)) {
		err = absent("no such name")
	}
	if agentbox.CodeOf(err) == agentbox.NotFound {
		return blob.Name{}, absent("the store has nothing for %s/%s", namespace, key)
	}
	return n, err
}

// Names gives the names of a namespace whose keys begin with prefix, those that hold, sorted by
// namespace and key. A namespace of "" is all of them. Files that are damaged are passed over. It
// reads and verifies every name of the store.
func (s *Store) Names(namespace, prefix string) ([]blob.Name, error) {
	out := []blob.Name{}
	err := s.eachName(func(file string, n blob.Name, err error) error {
		if err != nil || strings.HasSuffix(file, alarmSuffix) || n.Expired(s.cfg.Now()) || !s.trusts(n) {
			return nil
		}
		if (namespace == "" || n.Namespace == namespace) && strings.HasPrefix(n.Key, prefix) {
			out = append(out, n)
		}
		return nil
	})
	slices.SortFunc(out, func(a, b blob.Name) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Key, b.Key))
	})
	return out, err
}

// eachName reads every file of names, in no order that means anything, those that lost among them,
// and also those that are damaged: for these f is given the error. It takes no lock, so a name may
// come or go meanwhile.
func (s *Store) eachName(f func(file string, n blob.Name, err error) error) error {
	files, err := s.list(namesDir)
	if err != nil {
		return err
	}
	for _, file := range files {
		n, err := s.readName(file)
		if err := f(file, n, err); err != nil {
			return err
		}
	}
	return nil
}

// Unpublish forgets a name, and the alarm about it. What it stood for becomes evictable, unless
// another root keeps it. NotFound when there is none.
func (s *Store) Unpublish(namespace, key string) error {
	if err := blob.CheckKey(namespace, key); err != nil {
		return err
	}
	s.namesMu.Lock()
	defer s.namesMu.Unlock()
	defer s.named()
	file := nameFile(namespace, key)
	if err := s.fs.Remove(s.path(namesDir, file)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return absent("the store has nothing for %s/%s", namespace, key)
		}
		return s.hostError(err)
	}
	if err := s.fs.Remove(s.path(namesDir, file+alarmSuffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s.hostError(err)
	}
	return s.hostError(s.fs.SyncDir(s.path(namesDir)))
}

// Untrusted lists the names whose producers are not believed (any more), expired or not: what a
// revoked member made, for the caller to forget.
func (s *Store) Untrusted() ([]blob.Name, error) {
	out := []blob.Name{}
	err := s.eachName(func(file string, n blob.Name, err error) error {
		if err == nil && !strings.HasSuffix(file, alarmSuffix) && !s.trusts(n) {
			out = append(out, n)
		}
		return nil
	})
	return out, err
}

// Forget takes back the name of a key, by whatever producer, and removes at once what nothing else
// keeps of what it stood for, grace or not. No such name is no error.
func (s *Store) Forget(ctx context.Context, namespace, key string) error {
	if err := blob.CheckKey(namespace, key); err != nil {
		return err
	}
	n, err := s.readName(nameFile(namespace, key))
	if err == nil {
		err = s.Unpublish(namespace, key)
	}
	if agentbox.CodeOf(err) == agentbox.NotFound {
		return nil
	}
	if err == nil {
		_, err = s.GC(ctx, GCOptions{Drop: []agentbox.Digest{n.Manifest}})
	}
	return err
}

// Alarm is a key for which two results were published. Kept is the name that Lookup gives, Lost the
// newest of those that contradicted it.
type Alarm struct {
	Kept blob.Name `json:"kept"`
	Lost blob.Name `json:"lost"`
}

// Alarms lists the keys with more than one result, until Unpublish. Their producers need not be
// trusted.
func (s *Store) Alarms() ([]Alarm, error) {
	out := []Alarm{}
	err := s.eachName(func(file string, n blob.Name, err error) error {
		if base, ok := strings.CutSuffix(file, alarmSuffix); ok && err == nil {
			kept, err := s.readName(base)
			if err == nil {
				out = append(out, Alarm{Kept: kept, Lost: n})
			}
		}
		return nil
	})
	return out, err
}

// expireNames removes the files of names that ended more than a grace period ago, and tells each
// what it removes, or would. Until then an expired name is not shown, but can be extended (Take).
func (s *Store) expireNames(dryRun bool, grace time.Duration, each func(n blob.Name)) error {
	s.namesMu.Lock()
	defer s.namesMu.Unlock()
	return s.eachName(func(file string, n blob.Name, err error) error {
		if err != nil || !n.Expired(s.cfg.Now().Add(-grace)) {
			return nil
		}
		if !strings.HasSuffix(file, alarmSuffix) {
			each(n)
		}
		if dryRun {
			return nil
		}
		defer s.named()
		return s.hostError(s.fs.Remove(s.path(namesDir, file)))
	})
}
