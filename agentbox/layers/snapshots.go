package layers

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/agentbox/identity"
	"agentbox/agentbox/snapshot"
	"agentbox/cachestore"
	"agentbox/cachestore/blob"
)

// snapshotNamespace has the names of snapshots: KEY, a StoredSnapshot (snapshot.Document.Key); KEY/work,
// its pack; identity/ID, of a box or task; history/COMMIT, the pack of a commit with its history, which
// snapshots of other machines' boxes build on, history/COMMIT/rest, that without what the last machine that
// asked had; and copy/KEY/MANIFEST, what a copy of another machine's context consists of.
const (
	snapshotNamespace = "snapshot"
	workSuffix        = "/work"
	historyPrefix     = "history/"
	restSuffix        = "/rest"
	identityPrefix    = "identity/"
	snapshotType      = "application/vnd.agentbox.snapshot+json"
	packType          = "application/x-git-pack"
)

// Snapshots are the snapshots of this machine. Methods may be called at once.
type Snapshots struct {
	// Store returns the store, waiting until it is open.
	Store func(ctx context.Context) (*cachestore.Store, error)
}

// StoredSnapshot is a snapshot as the store has it.
type StoredSnapshot struct {
	Version  int               `json:"version"`
	Document snapshot.Document `json:"document"`
	Work     agentbox.Digest   `json:"work"`  // the manifest of its pack
	Bytes    int64             `json:"bytes"` // of the pack

	ID      agentbox.Digest `json:"-"`
	Created time.Time       `json:"-"`
	Comment string          `json:"-"` // what it is of
	// Manifest is that of the StoredSnapshot itself, as JSON.
	Manifest agentbox.Digest `json:"-"`
}

// Put keeps a snapshot, or finds it: created tells which. write writes its pack.
func (s Snapshots) Put(ctx context.Context, d snapshot.Document, id agentbox.Digest, of string, write func(context.Context, io.Writer) error) (out StoredSnapshot, created bool, err error) {
	store, err := s.Store(ctx)
	if err != nil {
		return out, false, err
	}
	same, _, err := s.named(ctx, store, id.Hex())
	if err != nil {
		return out, false, err
	}
	for _, out := range same {
		if out.Document.Holder == d.Holder {
			return out, false, nil
		}
	}
	for _, out := range same {
		out.Document.Holder = d.Holder
		// One that its holder drops meanwhile cannot be named, and is written again.
		if err := s.Adopt(ctx, out, of); err == nil {
			return out, false, nil
		}
	}
	work, err := s.putPack(ctx, store, d.Key(id)+workSuffix, write)
	if err != nil {
		return out, false, err
	}
	out = StoredSnapshot{Version: 1, Document: d, Work: work.Manifest, Bytes: work.Size, ID: id, Created: now(), Comment: comment(of)}
	err = untilNamed(func() error {
		if out.Manifest, err = putDocument(ctx, store, out); err != nil {
			return err
		}
		return publishName(ctx, store, out, d.Key(id), out.Manifest)
	})
	return out, true, err
}

// untilNamed writes and names something. What has the same content may be dropped between the two, by who
// kept it before, and it with that.
func untilNamed(write func() error) (err error) {
	for range 3 {
		if err = write(); agentbox.CodeOf(err) != agentbox.NotFound {
			return err
		}
	}
	return err
}

func putDocument(ctx context.Context, store *cachestore.Store, one StoredSnapshot) (agentbox.Digest, error) {
	text, err := json.Marshal(one)
	if err != nil {
		return agentbox.Digest{}, err
	}
	put, err := store.PutStream(ctx, bytes.NewReader(text), blob.Info{Kind: blob.Snapshot, MediaType: snapshotType})
	return put.Manifest, err
}

// now is in whole seconds, as in a name that is signed.
func now() time.Time { return time.Now().UTC().Truncate(time.Second) }

// publishName gives a blob of a snapshot its name.
func publishName(ctx context.Context, store *cachestore.Store, of StoredSnapshot, key string, manifest agentbox.Digest) error {
	_, err := store.Publish(ctx, blob.Name{Namespace: snapshotNamespace, Key: key, Manifest: manifest, Scope: blob.Local, Created: of.Created, Comment: of.Comment})
	return err
}

// putPack keeps a pack under a key, which it had no other one under.
func (s Snapshots) putPack(ctx context.Context, store *cachestore.Store, key string, write func(context.Context, io.Writer) error) (put cachestore.PutResult, err error) {
	err = untilNamed(func() error {
		err := background.Pipe(ctx, write, func(ctx context.Context, r io.Reader) (err error) {
			put, err = store.PutStream(ctx, r, blob.Info{Kind: blob.Snapshot, MediaType: packType})
			return err
		})
		if err != nil {
			return err
		}
		if n, err := store.Lookup(snapshotNamespace, key); err == nil && n.Manifest != put.Manifest {
			if err := store.Unpublish(snapshotNamespace, key); err != nil {
				return err
			}
		}
		_, err = store.Publish(ctx, blob.Name{Namespace: snapshotNamespace, Key: key, Manifest: put.Manifest, Scope: blob.Local})
		return err
	})
	return put, err
}

// History returns the manifest of the pack of a commit with its history. write writes it, if there is none.
// With rest it is for a machine that has some of it, and made each time.
func (s Snapshots) History(ctx context.Context, commit string, rest bool, write func(context.Context, io.Writer) error) (agentbox.Digest, error) {
	store, err := s.Store(ctx)
	if err != nil {
		return agentbox.Digest{}, err
	}
	key := historyPrefix + commit
	if rest {
		key += restSuffix
	} else if n, err := store.Lookup(snapshotNamespace, key); err == nil {
		if _, err := store.Manifest(ctx, n.Manifest); err == nil {
			return n.Manifest, nil
		}
	}
	put, err := s.putPack(ctx, store, key, write)
	return put.Manifest, err
}

// PutIdentity keeps the newest identity of a box or task, which key names, and returns its manifest.
func (s Snapshots) PutIdentity(ctx context.Context, key string, encoded []byte) (agentbox.Digest, error) {
	store, err := s.Store(ctx)
	if err != nil {
		return agentbox.Digest{}, err
	}
	put, err := s.putPack(ctx, store, identityPrefix+key, func(_ context.Context, w io.Writer) error {
		_, err := w.Write(encoded)
		return err
	})
	return put.Manifest, err
}

// DropIdentity forgets an identity that is not needed any more.
func (s Snapshots) DropIdentity(ctx context.Context, key string) error {
	store, err := s.Store(ctx)
	if err != nil {
		return err
	}
	return store.Forget(ctx, snapshotNamespace, identityPrefix+key)
}

// FetchIdentity gets an identity from the team; nothing of it is verified.
func (s Snapshots) FetchIdentity(ctx context.Context, remotes *Remotes, manifest agentbox.Digest) ([]byte, error) {
	store, err := s.Store(ctx)
	if err != nil {
		return nil, err
	}
	return readBlob(ctx, store, manifest, remotes.Source(Team), identity.MaxBytes)
}

// FetchDocument gets the description of a snapshot from the team. The error is Corrupt for one that
// is not the snapshot with this ID.
func (s Snapshots) FetchDocument(ctx context.Context, remotes *Remotes, manifest, id agentbox.Digest) (StoredSnapshot, error) {
	store, err := s.Store(ctx)
	if err != nil {
		return StoredSnapshot{}, err
	}
	return s.decode(ctx, store, manifest, remotes.Source(Team), id.Hex())
}

// SizeOf asks the team how large a blob is.
func (s Snapshots) SizeOf(ctx context.Context, remotes *Remotes, manifest agentbox.Digest) (int64, error) {
	store, err := s.Store(ctx)
	if err != nil {
		return 0, err
	}
	m, err := store.EnsureManifest(ctx, manifest, remotes.Source(Team))
	return m.Size, err
}

// AnySize is a bound for what a user waits for.
const AnySize = math.MaxInt64

// FetchPack gets a pack of at most most bytes from the team, all of it, and opens it. The error is NoSpace
// for a larger one.
func (s Snapshots) FetchPack(ctx context.Context, remotes *Remotes, manifest agentbox.Digest, most int64) (io.ReadCloser, int64, error) {
	store, err := s.Store(ctx)
	if err != nil {
		return nil, 0, err
	}
	m, err := store.EnsureManifest(ctx, manifest, remotes.Source(Team))
	if err == nil && m.Size > most {
		err = agentbox.Errorf(agentbox.NoSpace, "it has %d bytes, at most %d", m.Size, most)
	}
	if err != nil {
		return nil, 0, err
	}
	if err := store.Fetch(ctx, manifest, remotes.Source(Team), nil); err != nil {
		return nil, 0, err
	}
	r, err := store.OpenBlob(ctx, manifest, nil)
	if err != nil {
		return nil, 0, err
	}
	return struct {
		io.ReadSeeker
		io.Closer
	}{io.NewSectionReader(r, 0, m.Size), r}, m.Size, nil
}

// StreamPack gets a pack from the team, and writes it to w while it comes.
func (s Snapshots) StreamPack(ctx context.Context, remotes *Remotes, manifest agentbox.Digest, w io.Writer) error {
	store, err := s.Store(ctx)
	if err != nil {
		return err
	}
	return store.FetchTo(ctx, manifest, remotes.Source(Team), w)
}

// AdoptAs keeps a snapshot of which the pack came from the team, and the document was made here.
func (s Snapshots) AdoptAs(ctx context.Context, d snapshot.Document, work agentbox.Digest, size int64, of string) (out StoredSnapshot, err error) {
	store, err := s.Store(ctx)
	if err != nil {
		return out, err
	}
	out = StoredSnapshot{Version: 1, Document: d, Work: work, Bytes: size}
	if out.ID, err = d.ID(); err != nil {
		return out, err
	}
	if out.Manifest, err = putDocument(ctx, store, out); err != nil {
		return out, err
	}
	return out, s.Adopt(ctx, out, of)
}

// Adopt keeps a snapshot that came from the team, all of which is here.
func (s Snapshots) Adopt(ctx context.Context, one StoredSnapshot, of string) error {
	store, err := s.Store(ctx)
	if err != nil {
		return err
	}
	one.Created, one.Comment = now(), comment(of)
	named := one.Document.Key(one.ID)
	for key, manifest := range map[string]agentbox.Digest{named: one.Manifest, named + workSuffix: one.Work} {
		if old, err := store.Lookup(snapshotNamespace, key); err == nil {
			if old.Manifest == manifest {
				continue
			}
			if err := store.Unpublish(snapshotNamespace, key); err != nil {
				return err
			}
		}
		if err := publishName(ctx, store, one, key, manifest); err != nil {
			return err
		}
	}
	return nil
}

// copyPrefix begins the names of what belongs to a copy of another machine's context.
const copyPrefix = "copy/"

// KeepCopy keeps blobs that are here, as those of one copy, in place of the earlier ones.
func (s Snapshots) KeepCopy(ctx context.Context, key string, manifests ...agentbox.Digest) error {
	store, err := s.Store(ctx)
	if err != nil {
		return err
	}
	old, err := store.Names(snapshotNamespace, copyPrefix+key+"/")
	if err != nil {
		return err
	}
	for _, m := range manifests {
		n := blob.Name{Namespace: snapshotNamespace, Key: copyPrefix + key + "/" + m.Hex(), Manifest: m, Scope: blob.Local, Created: time.Now()}
		if _, err := store.Publish(ctx, n); err != nil {
			return err
		}
	}
	for _, n := range old {
		if !slices.Contains(manifests, n.Manifest) {
			if err := store.Forget(ctx, snapshotNamespace, n.Key); err != nil {
				return err
			}
		}
	}
	return nil
}

// Copies lists the keys of which KeepCopy keeps something.
func (s Snapshots) Copies(ctx context.Context) (keys []string, err error) {
	store, err := s.Store(ctx)
	if err != nil {
		return nil, err
	}
	names, err := store.Names(snapshotNamespace, copyPrefix)
	for _, n := range names {
		keys = append(keys, path.Dir(strings.TrimPrefix(n.Key, copyPrefix)))
	}
	slices.Sort(keys)
	return slices.Compact(keys), err
}

// DropCopy forgets what KeepCopy keeps.
func (s Snapshots) DropCopy(ctx context.Context, key string) error { return s.KeepCopy(ctx, key) }

// List lists snapshots, the newest first. One that cannot be read is left out. Of one that several keep,
// it has the user's, or else any.
func (s Snapshots) List(ctx context.Context) ([]StoredSnapshot, error) {
	store, err := s.Store(ctx)
	if err != nil {
		return nil, err
	}
	all, _, err := s.named(ctx, store, "")
	all = distinct(all)
	slices.SortStableFunc(all, func(a, b StoredSnapshot) int { return b.Created.Compare(a.Created) })
	return all, err
}

// Held lists the keys of what others than the user keep, with those of which only the pack was kept before a
// daemon was killed.
func (s Snapshots) Held(ctx context.Context) (keys []string, err error) {
	store, err := s.Store(ctx)
	if err != nil {
		return nil, err
	}
	names, err := store.Names(snapshotNamespace, "")
	for _, n := range names {
		if key := strings.TrimSuffix(n.Key, workSuffix); strings.Contains(key, "@") && !strings.Contains(key, "/") {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), err
}

// distinct is one of each, the user's where there is one.
func distinct(all []StoredSnapshot) []StoredSnapshot {
	slices.SortFunc(all, func(a, b StoredSnapshot) int {
		return strings.Compare(a.Document.Key(a.ID), b.Document.Key(b.ID))
	})
	return slices.CompactFunc(all, func(a, b StoredSnapshot) bool { return a.ID == b.ID })
}

// Find finds a snapshot by the beginning of its ID, as List has it.
func (s Snapshots) Find(ctx context.Context, ref string) (StoredSnapshot, error) {
	all, err := s.FindAll(ctx, ref)
	if err != nil {
		return StoredSnapshot{}, err
	}
	if all = distinct(all); len(all) > 1 {
		return StoredSnapshot{}, agentbox.Errorf(agentbox.Invalid, "the ids of %d snapshots begin with %s", len(all), ref).WithHint("agentbox snapshot ls --all lists them")
	}
	return all[0], nil
}

// FindAll finds snapshots by the beginning of their IDs, or of their keys: what each holder keeps. The
// error is NotFound for none.
func (s Snapshots) FindAll(ctx context.Context, ref string) ([]StoredSnapshot, error) {
	store, err := s.Store(ctx)
	if err != nil {
		return nil, err
	}
	ref = strings.TrimPrefix(ref, "sha256:")
	if len(ref) < 4 {
		return nil, noSnapshot(ref)
	}
	all, unreadable, err := s.named(ctx, store, ref)
	if err == nil && len(all) == 0 {
		err = unreadable
	}
	if err == nil && len(all) == 0 {
		err = noSnapshot(ref)
	}
	return all, err
}

func noSnapshot(ref string) error {
	return agentbox.Errorf(agentbox.NotFound, "there is no snapshot %q", ref).WithHint("agentbox snapshot ls --all lists them")
}

// named reads the snapshots whose keys begin with prefix. unreadable says why one of them could not be.
func (s Snapshots) named(ctx context.Context, store *cachestore.Store, prefix string) (all []StoredSnapshot, unreadable, err error) {
	names, err := store.Names(snapshotNamespace, prefix)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range names {
		if strings.Contains(n.Key, "/") {
			continue
		}
		id, holder, _ := strings.Cut(n.Key, "@")
		one, err := s.decode(ctx, store, n.Manifest, nil, id)
		if err != nil {
			unreadable = err
			continue
		}
		one.Created, one.Comment, one.Document.Holder = n.Created, n.Comment, holder
		all = append(all, one)
	}
	return all, unreadable, nil
}

func (s Snapshots) decode(ctx context.Context, store *cachestore.Store, manifest agentbox.Digest, src cachestore.Source, key string) (out StoredSnapshot, err error) {
	b, err := readBlob(ctx, store, manifest, src, snapshot.MaxDocument+1<<10)
	if err != nil {
		return out, err
	}
	if out, err = decodeSnapshot(b); err != nil {
		return out, err
	}
	out.Manifest = manifest
	if out.ID, err = out.Document.ID(); err == nil && out.ID.Hex() != key {
		err = agentbox.Errorf(agentbox.Corrupt, "the snapshot %.12s is another one", key)
	}
	return out, err
}

// decodeSnapshot reads a StoredSnapshot, which may come from another machine.
func decodeSnapshot(b []byte) (out StoredSnapshot, err error) {
	var raw struct {
		Version  int             `json:"version"`
		Document json.RawMessage `json:"document"`
		Work     agentbox.Digest `json:"work"`
		Bytes    int64           `json:"bytes"`
	}
	if err := json.Unmarshal(b, &raw); err != nil || raw.Version != 1 || raw.Bytes < 0 {
		return out, agentbox.Errorf(agentbox.Corrupt, "this is no snapshot of version 1")
	}
	out = StoredSnapshot{Version: raw.Version, Work: raw.Work, Bytes: raw.Bytes}
	out.Document, err = snapshot.ParseDocument(raw.Document)
	return out, err
}

// readBlob reads a small blob, of which missing pieces come from src.
func readBlob(ctx context.Context, store *cachestore.Store, manifest agentbox.Digest, src cachestore.Source, most int64) ([]byte, error) {
	m, err := store.EnsureManifest(ctx, manifest, src)
	if err != nil {
		return nil, err
	}
	if m.Size > most {
		return nil, agentbox.Errorf(agentbox.Corrupt, "%s has %d bytes, at most %d", manifest.Short(), m.Size, most)
	}
	r, err := store.OpenBlob(ctx, manifest, src)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.NewSectionReader(r, 0, m.Size))
}

// Remove forgets what one holder keeps. The pack of its base stays until nothing uses it for a while.
func (s Snapshots) Remove(ctx context.Context, one StoredSnapshot) error {
	return s.Forget(ctx, one.Document.Key(one.ID))
}

// Forget forgets what is kept under a key, the whole of it or a part.
func (s Snapshots) Forget(ctx context.Context, key string) error {
	store, err := s.Store(ctx)
	if err != nil {
		return err
	}
	for _, name := range []string{key, key + workSuffix} {
		if err := store.Forget(ctx, snapshotNamespace, name); err != nil {
			return err
		}
	}
	return nil
}
