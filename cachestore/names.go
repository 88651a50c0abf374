package cachestore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/disk"
)

// maxNameFile bounds a file in names/ and pins/, in bytes, when it is read. A pin of 256 manifests
// has under 20 KiB, a name at most 16 KiB.
const maxNameFile = 32 << 10

// manifests is what names and pins need to know of the manifests that they keep.
type manifests interface {
	// hold keeps a manifest from being evicted until the func it returns is called.
	hold(d agentbox.Digest) (release func())
	// known is NotFound or Corrupt unless a manifest is here. Callers hold it.
	known(ctx context.Context, d agentbox.Digest) error
}

// names is the table of signed names: a file for each key in names/. Its methods may be called at
// once.
type names struct {
	dir
	manifests manifests
	// key, trusted, changed and now are Config's Key, Trusted, Named and Now.
	key     ed25519.PrivateKey
	trusted func(producer ed25519.PublicKey) bool
	changed func()
	now     func() time.Time
	log     *slog.Logger
	// mu is held to change a name, and by gc from its last look at the roots until a manifest is
	// dropped, so that nothing is named that is going.
	mu sync.Mutex
}

// Publish says that a key stands for a manifest that is here, in our name; n needs a namespace, a
// key, a manifest and a scope. A key is published once: see Take for what happens to a second
// claim.
//
// It returns the name as it was signed, its times rounded to seconds. Created may be zero: now.
// Missing when the store has no key; otherwise the errors of Take.
func (t *names) Publish(ctx context.Context, n blob.Name) (blob.Name, error) {
	if t.key == nil {
		return n, agentbox.Errorf(agentbox.Missing, "the store has no key to sign names with")
	}
	if n.Created.IsZero() {
		n.Created = t.now()
	}
	n, err := n.Sign(t.key)
	if err != nil {
		return n, err
	}
	return n, t.Take(ctx, n)
}

// Take remembers a name that somebody signed. Its manifest must be here. A name is written once:
// when the key stands for another manifest already, the one whose producer is trusted wins, the one
// that was here first when both are or neither is; the other is kept as an Alarm, and when it is
// the new one that loses, the error says Conflict. The same manifest again extends the expiry.
//
// Invalid or Corrupt when the name itself is not well-formed or its signature is not its
// producer's, NotFound when the manifest is not here. A name by a producer that is not trusted is
// kept all the same: it is not shown (Lookup), and counts from the moment the producer is trusted.
func (t *names) Take(ctx context.Context, n blob.Name) error {
	if err := n.Verify(); err != nil {
		return err
	}
	release := t.manifests.hold(n.Manifest)
	defer release()
	if err := t.manifests.known(ctx, n.Manifest); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	old, err := t.read(nameFile(n.Namespace, n.Key))
	switch {
	case agentbox.CodeOf(err) == agentbox.NotFound, agentbox.CodeOf(err) == agentbox.Corrupt:
		return t.write(n, "")
	case err != nil:
		return err
	case old.Manifest == n.Manifest:
		if t.outranks(n, old) {
			return t.write(n, "")
		}
		return nil
	case old.Expired(t.now()):
		return t.write(n, "")
	}
	return t.contest(old, n)
}

// outranks reports whether a name is worth writing over one of the same key and manifest: it is
// trusted and the other is not, which is not shown, or both are or neither is and it ends no
// earlier.
func (t *names) outranks(n, old blob.Name) bool {
	if trusted := t.trusts(n); trusted != t.trusts(old) {
		return trusted
	}
	return n.Expires.IsZero() || !old.Expires.IsZero() && !n.Expires.Before(old.Expires)
}

// contest settles two names for one key. Both stay on disk, because a key that gives two results
// means that a build is not reproducible or a member lies, and a person has to see both.
func (t *names) contest(old, n blob.Name) error {
	t.log.Error("store: two results for one key", "namespace", n.Namespace, "key", n.Key, "here", old.Manifest.Short(), "new", n.Manifest.Short())
	if t.trusts(n) && !t.trusts(old) {
		return errors.Join(t.write(old, alarmSuffix), t.write(n, ""))
	}
	if err := t.write(n, alarmSuffix); err != nil {
		return err
	}
	return agentbox.Errorf(agentbox.Conflict, "%s/%s stands for %s already, not for %s", n.Namespace, n.Key, old.Manifest.Short(), n.Manifest.Short()).
		WithHint("one key must give one result: agentbox doctor shows both producers")
}

// trusts reports whether a name's producer is us or believed by the configuration, now.
func (t *names) trusts(n blob.Name) bool {
	if t.key != nil && bytes.Equal(n.Producer, t.key.Public().(ed25519.PublicKey)) {
		return true
	}
	return t.trusted != nil && t.trusted(n.Producer)
}

// nameFile is the name of the file of a key in names/.
func nameFile(namespace, key string) string { return hashed(namespace, key) }

// write writes a name's file, or with alarmSuffix that of the name that lost. Callers hold
// mu.
func (t *names) write(n blob.Name, suffix string) error {
	b, err := n.Encode()
	if err != nil {
		return err
	}
	err = t.hostError(disk.Replace(t.fs, t.path(namesDir, nameFile(n.Namespace, n.Key)+suffix), b))
	t.notify()
	return err
}

// notify calls changed. Callers hold mu.
func (t *names) notify() {
	if t.changed != nil {
		t.changed()
	}
}

// read reads and verifies a name, trusted or not. NotFound when there is no such file, Corrupt
// when it is damaged, or is that of another key: files that somebody moved about must not change
// what a key means.
func (t *names) read(file string) (blob.Name, error) {
	b, err := disk.ReadFile(t.fs, t.path(namesDir, file), maxNameFile)
	if errors.Is(err, fs.ErrNotExist) {
		return blob.Name{}, absent("no such name")
	}
	if err != nil {
		return blob.Name{}, t.hostError(err)
	}
	n, err := blob.DecodeName(b)
	if err != nil {
		return n, agentbox.Errorf(agentbox.Corrupt, "%s: %w", t.path(namesDir, file), err)
	}
	if nameFile(n.Namespace, n.Key) != strings.TrimSuffix(file, alarmSuffix) {
		return n, agentbox.Errorf(agentbox.Corrupt, "%s holds the name of another key", t.path(namesDir, file))
	}
	return n, nil
}

// Lookup returns the name of a key: NotFound when there is none, or it has expired, or its producer
// is not trusted (any more); Corrupt when its file is damaged, until the key is published again.
// That a manifest has a name does not mean that all of its chunks are here.
func (t *names) Lookup(namespace, key string) (blob.Name, error) {
	if err := blob.CheckKey(namespace, key); err != nil {
		return blob.Name{}, err
	}
	n, err := t.read(nameFile(namespace, key))
	if err == nil && (n.Expired(t.now()) || !t.trusts(n)) {
		err = absent("no such name")
	}
	if agentbox.CodeOf(err) == agentbox.NotFound {
		return blob.Name{}, absent("the store has nothing for %s/%s", namespace, key)
	}
	return n, err
}

// Names returns the names of a namespace whose keys begin with prefix, those that hold, sorted by
// namespace and key. A namespace of "" is all of them. Files that are damaged are passed over. It
// reads and verifies every name of the store.
func (t *names) Names(namespace, prefix string) ([]blob.Name, error) {
	out := []blob.Name{}
	err := t.each(func(file string, n blob.Name, err error) error {
		if err != nil || strings.HasSuffix(file, alarmSuffix) || n.Expired(t.now()) || !t.trusts(n) {
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

// each reads every file of names, in no order that means anything, those that lost among them,
// and also those that are damaged: for these f is given the error. It takes no lock, so a name may
// come or go meanwhile.
func (t *names) each(f func(file string, n blob.Name, err error) error) error {
	files, err := t.list(namesDir)
	if err != nil {
		return err
	}
	for _, file := range files {
		n, err := t.read(file)
		if err := f(file, n, err); err != nil {
			return err
		}
	}
	return nil
}

// Unpublish forgets a name, and the alarm about it. What it stood for becomes evictable, unless
// another root keeps it. NotFound when there is none.
func (t *names) Unpublish(namespace, key string) error {
	if err := blob.CheckKey(namespace, key); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.notify()
	file := nameFile(namespace, key)
	if err := t.fs.Remove(t.path(namesDir, file)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return absent("the store has nothing for %s/%s", namespace, key)
		}
		return t.hostError(err)
	}
	if err := t.fs.Remove(t.path(namesDir, file+alarmSuffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return t.hostError(err)
	}
	return t.hostError(t.fs.SyncDir(t.path(namesDir)))
}

// Untrusted lists the names whose producers are not believed (any more), expired or not: what a
// revoked member made, for the caller to forget.
func (t *names) Untrusted() ([]blob.Name, error) {
	out := []blob.Name{}
	err := t.each(func(file string, n blob.Name, err error) error {
		if err == nil && !strings.HasSuffix(file, alarmSuffix) && !t.trusts(n) {
			out = append(out, n)
		}
		return nil
	})
	return out, err
}

// Alarm is a key for which two results were published. Kept is the name that Lookup gives, Lost the
// newest of those that contradicted it.
type Alarm struct {
	Kept blob.Name `json:"kept"`
	Lost blob.Name `json:"lost"`
}

// Alarms lists the keys with more than one result, until Unpublish. Their producers need not be
// trusted.
func (t *names) Alarms() ([]Alarm, error) {
	out := []Alarm{}
	err := t.each(func(file string, n blob.Name, err error) error {
		if base, ok := strings.CutSuffix(file, alarmSuffix); ok && err == nil {
			kept, err := t.read(base)
			if err == nil {
				out = append(out, Alarm{Kept: kept, Lost: n})
			}
		}
		return nil
	})
	return out, err
}

// expire removes the files of names that ended more than a grace period ago, and calls tell for
// each that it removes, or would. Until then an expired name is not shown, but can be extended
// (Take).
func (t *names) expire(dryRun bool, grace time.Duration, tell func(n blob.Name)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.each(func(file string, n blob.Name, err error) error {
		if err != nil || !n.Expired(t.now().Add(-grace)) {
			return nil
		}
		if !strings.HasSuffix(file, alarmSuffix) {
			tell(n)
		}
		if dryRun {
			return nil
		}
		defer t.notify()
		return t.hostError(t.fs.Remove(t.path(namesDir, file)))
	})
}
