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

// manifests is the part of a Store that names and pins need.
type manifests interface {
	// hold keeps a manifest from being evicted until release is called.
	hold(d agentbox.Digest) (release func())
	// known returns NotFound or Corrupt unless the store has the manifest. The caller holds it.
	known(ctx context.Context, d agentbox.Digest) error
}

// names is the table of signed names, a file in names/ each, for concurrent use.
type names struct {
	dir
	manifests manifests
	// key, trusted, changed and now are Config's Key, Trusted, OnNameChange and Now.
	key     ed25519.PrivateKey
	trusted func(producer ed25519.PublicKey) bool
	changed func()
	now     func() time.Time
	log     *slog.Logger
	// mu is held while a name changes. gc holds it from its last look at the roots until it has
	// dropped a manifest, so that no name is published for a manifest that is being dropped.
	mu sync.Mutex
}

// Publish signs a name with the store's key and adds it. n needs a namespace, a key, a scope, and a
// manifest that is in the store. Each key is published once: AddName says what happens to a second
// manifest.
//
// It returns the name as signed, with times in whole seconds. A zero Created means now. The error
// is Missing when the store has no key, and otherwise that of AddName.
func (ns *names) Publish(ctx context.Context, n blob.Name) (blob.Name, error) {
	if ns.key == nil {
		return n, agentbox.Errorf(agentbox.Missing, "the store has no key to sign names with")
	}
	if n.Created.IsZero() {
		n.Created = ns.now()
	}
	n, err := n.Sign(ns.key)
	if err != nil {
		return n, err
	}
	return n, ns.AddName(ctx, n)
}

// AddName adds a name that anybody signed. Its manifest must be in the store. The name of a key is
// written once. If it stands for another manifest already, the name whose producer is trusted wins;
// if both or neither are trusted, the older one wins. The other is kept as an Alarm, and the error
// is Conflict when that is the new one. A second name for the same manifest extends the expiry.
//
// The error is Corrupt when the name is malformed or not signed by its producer, and NotFound when
// the store does not have the manifest. A name of an untrusted producer is stored as well. Lookup
// does not return it until the producer is trusted.
func (ns *names) AddName(ctx context.Context, n blob.Name) error {
	if err := n.Verify(); err != nil {
		return err
	}
	release := ns.manifests.hold(n.Manifest)
	defer release()
	if err := ns.manifests.known(ctx, n.Manifest); err != nil {
		return err
	}
	ns.mu.Lock()
	defer ns.mu.Unlock()
	old, err := ns.read(nameFile(n.Namespace, n.Key))
	switch {
	case agentbox.CodeOf(err) == agentbox.NotFound, agentbox.CodeOf(err) == agentbox.Corrupt:
		return ns.write(n, "")
	case err != nil:
		return err
	case old.Manifest == n.Manifest:
		if ns.supersedes(n, old) {
			return ns.write(n, "")
		}
		return nil
	case old.Expired(ns.now()):
		return ns.write(n, "")
	}
	return ns.resolveConflict(old, n)
}

// supersedes reports whether n should replace old, a name of the same key and manifest: if only n
// is trusted, or if both or neither are and n does not expire earlier.
func (ns *names) supersedes(n, old blob.Name) bool {
	if trusted := ns.trusts(n); trusted != ns.trusts(old) {
		return trusted
	}
	return n.Expires.IsZero() || !old.Expires.IsZero() && !n.Expires.Before(old.Expires)
}

// resolveConflict decides between two names of one key. Both stay on disk: a key with two results
// means that a build is not reproducible or that a member lies, and a person has to see both.
func (ns *names) resolveConflict(old, n blob.Name) error {
	ns.log.Error("store: two results for one key", "namespace", n.Namespace, "key", n.Key, "here", old.Manifest.Short(), "new", n.Manifest.Short())
	if ns.trusts(n) && !ns.trusts(old) {
		return errors.Join(ns.write(old, alarmSuffix), ns.write(n, ""))
	}
	if err := ns.write(n, alarmSuffix); err != nil {
		return err
	}
	return agentbox.Errorf(agentbox.Conflict, "%s/%s stands for %s already, not for %s", n.Namespace, n.Key, old.Manifest.Short(), n.Manifest.Short()).
		WithHint("one key must give one result: agentbox doctor shows both producers")
}

// trusts reports whether a name's producer is this store or is trusted by the configuration now.
func (ns *names) trusts(n blob.Name) bool {
	if ns.key != nil && bytes.Equal(n.Producer, ns.key.Public().(ed25519.PublicKey)) {
		return true
	}
	return ns.trusted != nil && ns.trusted(n.Producer)
}

func nameFile(namespace, key string) string { return hashed(namespace, key) }

// write writes a name's file, or with alarmSuffix the file of the name that lost. Callers hold mu.
func (ns *names) write(n blob.Name, suffix string) error {
	b, err := n.Encode()
	if err != nil {
		return err
	}
	err = ns.hostError(disk.Replace(ns.fs, ns.path(namesDir, nameFile(n.Namespace, n.Key)+suffix), b))
	ns.notify()
	return err
}

// notify calls changed. Callers hold mu.
func (ns *names) notify() {
	if ns.changed != nil {
		ns.changed()
	}
}

// read reads and verifies a name, trusted or not. The error is NotFound when there is no such file,
// and Corrupt when it is damaged or holds the name of another key: files that were moved must not
// change what a key means.
func (ns *names) read(file string) (blob.Name, error) {
	b, err := disk.ReadFile(ns.fs, ns.path(namesDir, file), maxNameFile)
	if errors.Is(err, fs.ErrNotExist) {
		return blob.Name{}, notFound("no such name")
	}
	if err != nil {
		return blob.Name{}, ns.hostError(err)
	}
	n, err := blob.DecodeName(b)
	if err != nil {
		return n, agentbox.Classify(agentbox.Corrupt, "%s: %w", ns.path(namesDir, file), err)
	}
	if nameFile(n.Namespace, n.Key) != strings.TrimSuffix(file, alarmSuffix) {
		return n, agentbox.Errorf(agentbox.Corrupt, "%s holds the name of another key", ns.path(namesDir, file))
	}
	return n, nil
}

// Lookup returns the name of a key. The error is NotFound when there is none, when it has expired,
// or when its producer is not trusted now. It is Corrupt when the file is damaged, until the key is
// published again. The manifest is in the store, but its chunks may not be.
func (ns *names) Lookup(namespace, key string) (blob.Name, error) {
	if err := blob.CheckKey(namespace, key); err != nil {
		return blob.Name{}, err
	}
	n, err := ns.read(nameFile(namespace, key))
	if err == nil && (n.Expired(ns.now()) || !ns.trusts(n)) {
		err = notFound("no such name")
	}
	if agentbox.CodeOf(err) == agentbox.NotFound {
		return blob.Name{}, notFound("the store has nothing for %s/%s", namespace, key)
	}
	return n, err
}

// Names returns the trusted names of a namespace that have not expired and whose keys begin with
// prefix, sorted by namespace and key. An empty namespace selects all. It skips damaged files. It
// reads and verifies every name of the store.
func (ns *names) Names(namespace, prefix string) ([]blob.Name, error) {
	out := []blob.Name{}
	err := ns.each(func(file string, n blob.Name, err error) error {
		if err != nil || strings.HasSuffix(file, alarmSuffix) || n.Expired(ns.now()) || !ns.trusts(n) {
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

// each calls f for every file of names in any order, including the names that lost a conflict. For
// a damaged file, f gets the error. It holds no lock, so names may be added or removed meanwhile.
func (ns *names) each(f func(file string, n blob.Name, err error) error) error {
	files, err := ns.list(namesDir)
	if err != nil {
		return err
	}
	for _, file := range files {
		n, err := ns.read(file)
		if err := f(file, n, err); err != nil {
			return err
		}
	}
	return nil
}

// Unpublish removes a name and its alarm. The manifest becomes evictable unless another root keeps
// it. The error is NotFound when there is no such name.
func (ns *names) Unpublish(namespace, key string) error {
	if err := blob.CheckKey(namespace, key); err != nil {
		return err
	}
	ns.mu.Lock()
	defer ns.mu.Unlock()
	defer ns.notify()
	file := nameFile(namespace, key)
	if err := ns.fs.Remove(ns.path(namesDir, file)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return notFound("the store has nothing for %s/%s", namespace, key)
		}
		return ns.hostError(err)
	}
	if err := ns.fs.Remove(ns.path(namesDir, file+alarmSuffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ns.hostError(err)
	}
	return ns.hostError(ns.fs.SyncDir(ns.path(namesDir)))
}

// Untrusted lists the names whose producers are not trusted now, expired or not. These are what a
// revoked member made, for the caller to remove.
func (ns *names) Untrusted() ([]blob.Name, error) {
	out := []blob.Name{}
	err := ns.each(func(file string, n blob.Name, err error) error {
		if err == nil && !strings.HasSuffix(file, alarmSuffix) && !ns.trusts(n) {
			out = append(out, n)
		}
		return nil
	})
	return out, err
}

// Alarm is a key for which two results were published. Kept is the name that Lookup returns, Lost
// the latest one that contradicted it.
type Alarm struct {
	Kept blob.Name `json:"kept"`
	Lost blob.Name `json:"lost"`
}

// Alarms lists the keys with more than one result, until they are unpublished. The producers may be
// untrusted.
func (ns *names) Alarms() ([]Alarm, error) {
	out := []Alarm{}
	err := ns.each(func(file string, n blob.Name, err error) error {
		if base, ok := strings.CutSuffix(file, alarmSuffix); ok && err == nil {
			kept, err := ns.read(base)
			if err == nil {
				out = append(out, Alarm{Kept: kept, Lost: n})
			}
		}
		return nil
	})
	return out, err
}

// expire removes the files of names that expired more than a grace period ago. It calls tell for
// each name that it removes, or would remove. During the grace period, Lookup does not return an
// expired name, but AddName can extend it.
func (ns *names) expire(dryRun bool, grace time.Duration, tell func(n blob.Name)) error {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.each(func(file string, n blob.Name, err error) error {
		if err != nil || !n.Expired(ns.now().Add(-grace)) {
			return nil
		}
		if !strings.HasSuffix(file, alarmSuffix) {
			tell(n)
		}
		if dryRun {
			return nil
		}
		defer ns.notify()
		return ns.hostError(ns.fs.Remove(ns.path(namesDir, file)))
	})
}
