package layers

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/caches"
	"agentbox/cachestore"
	"agentbox/cachestore/blob"
	"agentbox/mesh/identity"
)

// namespace is where the names of what setup made are. Their keys are FAMILY/KEY, each as hex.
const namespace = "setup"

// mediaType is that of a bundle.
const mediaType = "application/vnd.agentbox.setup"

// SetupResults is what setup made, by key. Each is one blob under one name, so it is there
// completely or not at all. Methods may be called at once. The zero value is of no use without
// Store.
type SetupResults struct {
	// Store returns the store, waiting until it is open.
	Store func(ctx context.Context) (*cachestore.Store, error)
	// Key is the public half of the key that signs our names; nil: all names are ours.
	Key ed25519.PublicKey
}

func (s SetupResults) ours(n blob.Name) bool {
	return s.Key == nil || s.Key.Equal(ed25519.PublicKey(n.Producer))
}

func nameOf(made caches.Result) string {
	return made.Ingredients.LookupKey().Hex() + "/" + made.Key.Hex()
}

// Find returns what was published for a key, NotFound if nothing was. Of several, by different
// producers, it is the newest. Made.Manifest and Made.By are set. Corrupt says that the store has
// something else under the name, or that part of it is damaged or missing; Made.Manifest is set
// then, for Forget.
func (s SetupResults) Find(ctx context.Context, key agentbox.Digest) (caches.Result, error) {
	return s.newest(ctx, "", func(n blob.Name) bool { return strings.HasSuffix(n.Key, "/"+key.Hex()) })
}

// Nearest returns the newest that was published here for any key of a family, NotFound if nothing
// was, Corrupt as for Find. What setup makes over it is ours, so it has to be. family is
// caches.Ingredients.LookupKey.
func (s SetupResults) Nearest(ctx context.Context, family agentbox.Digest) (caches.Result, error) {
	return s.newest(ctx, family.Hex()+"/", func(n blob.Name) bool { return s.ours(n) })
}

// newest opens the newest of the names that want accepts. Created is the producer's clock, which
// decides between results that are equally good, and nothing else.
func (s SetupResults) newest(ctx context.Context, prefix string, want func(blob.Name) bool) (caches.Result, error) {
	store, err := s.Store(ctx)
	if err != nil {
		return caches.Result{}, err
	}
	names, err := store.Names(namespace, prefix)
	if err != nil {
		return caches.Result{}, err
	}
	var best blob.Name
	for _, n := range names {
		if want(n) && (best.Key == "" || n.Created.After(best.Created)) {
			best = n
		}
	}
	if best.Key == "" {
		return caches.Result{}, agentbox.Errorf(agentbox.NotFound, "nobody has published what setup makes here")
	}
	made, err := madeAs(ctx, store, best)
	if err == nil {
		err = checkKey(made)
	}
	if err == nil && !s.ours(best) {
		made.By = identity.PeerOf(best.Producer).String()
	}
	return made, err
}

// madeAs reads what is said of a result in its bundle, all of which must be here. Corrupt: it is
// not what its name says. Of a result that cannot be read, Made.Manifest alone is set.
func madeAs(ctx context.Context, store *cachestore.Store, n blob.Name) (caches.Result, error) {
	b, err := open(ctx, store, n.Manifest)
	if err != nil {
		return caches.Result{Manifest: n.Manifest}, incomplete(err)
	}
	made := b.head.Made
	made.Manifest = n.Manifest
	if nameOf(made) != n.Key {
		err = agentbox.Errorf(agentbox.Corrupt, "the setup result published as %.80s is of another key", n.Key)
	}
	return made, errors.Join(err, b.blob.Close())
}

// checkKey is Corrupt unless the key of a result is that of its ingredients: a member could
// otherwise put a result in the place of another's.
func checkKey(made caches.Result) error {
	if made.Ingredients.Key() != made.Key {
		return agentbox.Errorf(agentbox.Corrupt, "the result of setup for key %s was made of other ingredients", made.Key.Short())
	}
	return nil
}

// OfBranch lists the manifests of what was published for a branch of a project alone.
func (s SetupResults) OfBranch(ctx context.Context, project, branch string) (all []agentbox.Digest, err error) {
	store, err := s.Store(ctx)
	if err != nil {
		return nil, err
	}
	names, err := store.Names(namespace, "")
	for _, n := range names {
		made, err := madeAs(ctx, store, n)
		if in := made.Ingredients; err == nil && branch != "" && in.Project == project && in.Branch == branch { // what cannot be read is nobody's
			all = append(all, n.Manifest)
		}
	}
	return all, err
}

// Size is the bytes of a result that is here; 0 if it is not.
func (s SetupResults) Size(ctx context.Context, manifest agentbox.Digest) int64 {
	store, err := s.Store(ctx)
	if err != nil {
		return 0
	}
	m, err := store.Manifest(ctx, manifest)
	if err != nil {
		return 0
	}
	return m.Size
}

// Publish keeps what a populate run made. A key is published once: with another result there
// already, the error says Conflict. parts has the path of a tar for each of made.Parts; they are
// read and stay the caller's. Made.Private results are for this machine alone.
func (s SetupResults) Publish(ctx context.Context, made caches.Result, parts map[caches.Part]string) (err error) {
	store, err := s.Store(ctx)
	if err != nil {
		return err
	}
	// Opened before anything is stored: a part that is missing is the populate run's failure.
	files := map[caches.Part]*os.File{}
	defer func() {
		for _, f := range files {
			err = errors.Join(err, f.Close())
		}
	}()
	for _, part := range made.Parts {
		if files[part], err = os.Open(parts[part]); err != nil {
			return err
		}
	}
	bundle, err := newBundle(made, files)
	if err != nil {
		return err
	}
	stored, err := store.PutStream(ctx, bundle, blob.Info{Kind: blob.Cache, MediaType: mediaType})
	if err != nil {
		return err
	}
	scope := blob.Team
	if made.Private {
		scope = blob.Local
	}
	_, err = store.Publish(ctx, blob.Name{
		Namespace: namespace, Key: nameOf(made), Manifest: stored.Manifest, Scope: scope, Created: time.Now(),
		Comment: comment(strings.Join(made.Ingredients.Setup, "; ")),
	})
	return err
}

// Forget takes back the names of a result, because it is damaged. Its space can be given back from
// then on. A result without a name is no error.
func (s SetupResults) Forget(ctx context.Context, result agentbox.Digest) error {
	store, err := s.Store(ctx)
	if err != nil {
		return err
	}
	names, err := store.Names(namespace, "")
	for _, n := range names {
		if n.Manifest == result {
			err = errors.Join(err, store.Unpublish(namespace, n.Key))
		}
	}
	return err
}

// Open reads one part of a result, whatever its key stands for meanwhile. All it gives was hashed.
// The caller closes it. NotFound says that the result has no such part; Corrupt, which reading may
// also fail with, that it is damaged, or is not all here any more.
func (s SetupResults) Open(ctx context.Context, result agentbox.Digest, part caches.Part) (io.ReadCloser, error) {
	store, err := s.Store(ctx)
	if err != nil {
		return nil, err
	}
	b, err := open(ctx, store, result)
	if err != nil {
		return nil, incomplete(err)
	}
	section, err := b.part(part)
	if err != nil {
		return nil, errors.Join(err, b.blob.Close())
	}
	return partReader{section, b.blob}, nil
}

// partReader is a part of a result that is being read.
type partReader struct {
	io.Reader
	io.Closer
}

// Read implements io.Reader.
func (p partReader) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	return n, incomplete(err)
}

// incomplete makes the error of reading a result Corrupt if bytes of it are not here: the store
// takes a damaged chunk away as soon as it was read once.
func incomplete(err error) error {
	if agentbox.CodeOf(err) == agentbox.NotFound {
		return agentbox.Classify(agentbox.Corrupt, "part of what setup made is missing: %w", err)
	}
	return err
}

// KeyOf returns which key a name of ours is for, so that `cache show` can say why it is the key it
// is. ok is false for every other name.
func KeyOf(n blob.Name) (agentbox.Digest, bool) {
	_, text, _ := strings.Cut(n.Key, "/")
	key, err := agentbox.ParseDigest("sha256:" + text)
	if err != nil || n.Namespace != namespace {
		return agentbox.Digest{}, false
	}
	return key, true
}
