package layers

import (
	"context"
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/cachestore"
	"agentbox/cachestore/blob"
	"agentbox/vmm/image"
)

// imageNamespace is where the names of images are; their keys are the digests of the erofs files,
// as hex. A name keeps what there is of its image.
const imageNamespace = "image"

// erofsType is the media type of an image's file.
const erofsType = "application/vnd.erofs"

// Images keeps layer 0 in the store: images that are here as files, without a second copy, and
// images that come piece by piece. Its methods may be called at once. Store, Remotes and Key are
// needed and do not change.
type Images struct {
	// Store returns the store, waiting until it is open.
	Store func(ctx context.Context) (*cachestore.Store, error)
	// Remotes are asked for what is damaged or missing.
	Remotes *Remotes
	// Key is the public half of the key that signs our names.
	Key ed25519.PublicKey

	keeping sync.Mutex // held while an image is added
}

// Add adds an image of this machine to the store and returns its manifest. It verifies the file's
// digest first, except for an image that the store has already. The store links to the file, which
// stays where it is. rate limits the bytes read per second; 0 means no limit. The error is Corrupt
// if the file does not match its digest, and Conflict if the image's maker is no longer trusted.
func (i *Images) Add(ctx context.Context, img image.Image, rate int64) (agentbox.Digest, error) {
	store, err := i.Store(ctx)
	if err != nil {
		return agentbox.Digest{}, err
	}
	// Held from the lookup until the image has its name, so that two calls do not both read it.
	i.keeping.Lock()
	defer i.keeping.Unlock()
	n, err := store.Lookup(imageNamespace, img.Digest.Hex())
	if err == nil && n.Scope != scopeOf(img) && i.ours(n) {
		err = i.name(ctx, store, img, n.Manifest) // the scope changed; only our own names can be signed again
	}
	if agentbox.CodeOf(err) != agentbox.NotFound {
		return n.Manifest, err
	}
	// An image from the team comes with its maker's name. If the store has none, it was dropped
	// because the maker is no longer trusted.
	if img.Origin != "" {
		return agentbox.Digest{}, revoked(img)
	}
	if err := check(ctx, img, rate); err != nil {
		return agentbox.Digest{}, err
	}
	stored, err := store.PutImageFile(ctx, img.Path, blob.Info{Kind: blob.Image, MediaType: erofsType}, rate)
	if err != nil {
		return agentbox.Digest{}, err
	}
	return stored.Manifest, i.name(ctx, store, img, stored.Manifest)
}

// check compares an image's file with its digest. The file's times cannot replace this: they do not
// change when a disk loses data. It reads some hundred megabytes, at most rate bytes per second.
func check(ctx context.Context, img image.Image, rate int64) error {
	f, err := os.Open(img.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	got, _, err := agentbox.DigestOf(cachestore.LimitRate(ctx, f, rate))
	if err == nil && got != img.Digest {
		err = agentbox.Errorf(agentbox.Corrupt, "image %s is damaged: its bytes are those of %s", img.Digest.Short(), got.Short())
	}
	return err
}

func (i *Images) name(ctx context.Context, store *cachestore.Store, img image.Image, manifest agentbox.Digest) error {
	_, err := store.Publish(ctx, nameFor(img, manifest))
	return err
}

// nameFor is a name for an image by the list of its pieces, not signed yet.
func nameFor(img image.Image, manifest agentbox.Digest) blob.Name {
	return blob.Name{Namespace: imageNamespace, Key: img.Digest.Hex(), Manifest: manifest, Scope: scopeOf(img), Comment: comment(img.Name)}
}

// scopeOf is for whom an image is good: one with files of this host is nobody else's business.
func scopeOf(img image.Image) blob.Scope {
	if len(img.Include) > 0 {
		return blob.Local
	}
	return blob.Team
}

// revoked is the error for an image that came from somebody who is no member any more.
func revoked(img image.Image) error {
	return agentbox.Errorf(agentbox.Conflict, "image %s was made by member %.12s, who is not a builder of the team any more", img.Digest.Short(), img.Origin).
		WithHint("agentbox image rm %s; the next up makes it again", img.Digest.Short())
}

// ImageOf returns which image a name of ours is of. ok is false for other namespaces, and for the
// name of an image's description.
func ImageOf(n blob.Name) (agentbox.Digest, bool) {
	d, err := agentbox.ParseDigest("sha256:" + n.Key)
	return d, err == nil && n.Namespace == imageNamespace
}

// IsImage reports whether a name of ours is of an image that people call ref. Two names may be cut
// to the same comment; then it is true for both.
func IsImage(n blob.Name, ref string) bool {
	return n.Namespace == imageNamespace && ref != "" && n.Comment == comment(ref)
}

func (i *Images) ours(n blob.Name) bool { return i.Key.Equal(ed25519.PublicKey(n.Producer)) }

// comment is what of an image's name a signed name may carry: printable text.
func comment(s string) string {
	s = s[:min(len(s), 200)]
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, s)
}

// Forget lets the pieces of an image go, with the space they take. No such image is no error.
func (i *Images) Forget(ctx context.Context, digest agentbox.Digest) error {
	store, err := i.Store(ctx)
	if err != nil {
		return err
	}
	return errors.Join(store.Forget(ctx, imageNamespace, digest.Hex()), store.Forget(ctx, imageNamespace, digest.Hex()+aboutSuffix))
}

// Export writes an image into a directory from which others get it, whole or as they need it.
// trace, which may be nil, lists the blocks that a box reads first. progress may be nil. dir is
// made where it is absent, and may have other images already. It is remembered as a remote. What is
// interrupted leaves pieces that nothing names, and the next export uses.
func (i *Images) Export(ctx context.Context, img image.Image, trace []uint32, dir string, progress func(done, total int)) error {
	manifest, err := i.Add(ctx, img, 0)
	if err != nil {
		return err
	}
	store, err := i.Store(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return agentbox.Errorf(agentbox.Invalid, "%w", err)
	}
	if err := store.Export(ctx, manifest, dir, progress); err != nil {
		return err
	}
	if len(trace) > 0 {
		m, err := store.Manifest(ctx, manifest)
		if err != nil {
			return err
		}
		// A trace that does not fit, of a file that is damaged say, saves no time and is worth no
		// error.
		if m.Trace = trace; m.Check() == nil {
			b := m.Encode()
			manifest = blob.Sum(b)
			if err := durable.WriteFile(filepath.Join(dir, manifest.Hex()), b, 0o644); err != nil {
				return err
			}
		}
	}
	img.Lazy = &image.Lazy{Manifest: manifest}
	return errors.Join(addToIndex(dir, img), i.Remotes.Remember(dir))
}

// addToIndex names an image in a directory's list, in place of what the list said of it. Two
// exports into one directory at once may lose one of their lines.
func addToIndex(dir string, img image.Image) error {
	var list []image.Image
	path := filepath.Join(dir, indexName)
	b, err := os.ReadFile(path)
	if err == nil {
		list, err = decodeIndex(b)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	list = slices.DeleteFunc(list, func(other image.Image) bool { return other.Digest == img.Digest })
	if b, err = encode(index{indexVersion, append(list, img)}); err != nil {
		return err
	}
	return durable.WriteFile(path, b, 0o644)
}

// List lists the images of a source. from is an absolute directory or an http(s) URL of one.
// NotFound when it has no list, Corrupt when that is no list of images. Each image's Lazy.From is
// set to from.
func (i *Images) List(ctx context.Context, from string) ([]image.Image, error) {
	src, err := openSource(from)
	if err != nil {
		return nil, err
	}
	b, err := src.list(ctx)
	if err != nil {
		return nil, err
	}
	list, err := decodeIndex(b)
	for n := range list {
		lazy := *list[n].Lazy
		lazy.From = from
		list[n].Lazy = &lazy
	}
	return list, err
}

// Prepare makes the store expect an image: its manifest is got, and its name keeps what comes. img
// comes from List. Nothing of the image's bytes is got.
func (i *Images) Prepare(ctx context.Context, img image.Image) error {
	store, err := i.expect(ctx, img)
	if err != nil {
		return err
	}
	return errors.Join(i.name(ctx, store, img, img.Lazy.Manifest), i.Remotes.Remember(img.Lazy.From))
}

// expect gets the manifest of an image that is not here, and makes room for its name. The same
// image may have a name by another list of its pieces: with a trace, or begun elsewhere. What came
// for that stays, as chunks are kept by their digests, and the image is verified as a whole when it
// is all here.
func (i *Images) expect(ctx context.Context, img image.Image) (*cachestore.Store, error) {
	store, err := i.Store(ctx)
	if err != nil {
		return nil, err
	}
	m, err := store.EnsureManifest(ctx, img.Lazy.Manifest, i.Remotes.Source(img.Lazy.From))
	if err != nil {
		return nil, err
	}
	if !m.Blocks || m.Kind != blob.Image || m.Size != img.Size {
		return nil, agentbox.Errorf(agentbox.Corrupt, "%s says that image %s has %d bytes, its manifest is of a %s of %d", img.Lazy.From, img.Digest.Short(), img.Size, m.Kind, m.Size)
	}
	return store, unpublishOther(store, nameFor(img, img.Lazy.Manifest))
}

// OpenLazyImage opens the file of an image that was begun, be it in a store that is gone meanwhile.
// The caller closes it. img.Lazy must be set.
func (i *Images) OpenLazyImage(ctx context.Context, img image.Image) (*LazyImage, error) {
	store, err := i.Store(ctx)
	if err != nil {
		return nil, err
	}
	// Counted for this opening; host/images adds it up over all.
	from := &receivedBytes{}
	l, err := store.OpenLazyImage(ctx, img.Lazy.Manifest, i.Remotes.counted(from, img.Lazy.From))
	if err != nil {
		return nil, err
	}
	if _, err = store.Lookup(imageNamespace, img.Digest.Hex()); agentbox.CodeOf(err) == agentbox.NotFound {
		if err = revoked(img); img.Origin == "" {
			err = i.name(ctx, store, img, img.Lazy.Manifest)
		}
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &LazyImage{l, from}, nil
}

// Repair reads the store's file of an image and puts right what is damaged in it, with pieces from
// the remotes named here or remembered. It gives the file, which lasts until release is called;
// after an error there is no release. NotFound when the store does not have the image.
func (i *Images) Repair(ctx context.Context, digest agentbox.Digest, remotes ...string) (path string, release func(), err error) {
	store, err := i.Store(ctx)
	if err != nil {
		return "", nil, err
	}
	n, err := store.Lookup(imageNamespace, digest.Hex())
	if err != nil {
		return "", nil, err
	}
	return store.Repair(ctx, n.Manifest, i.Remotes.Source(remotes...))
}

// LazyImage is the file of an image that comes: what the store's own type can do, and from whom
// pieces came.
type LazyImage struct {
	*cachestore.LazyImage
	received *receivedBytes
}

// BlockSize is that of its blocks.
func (*LazyImage) BlockSize() int64 { return blob.BlockSize }

// ReadFirst lists the blocks that a box will read first, as far as its source knew. They are
// numbers of blocks, in the order in which a box once read them.
func (l *LazyImage) ReadFirst() []uint32 { return l.Manifest().Trace }

// ManifestOf returns the manifest of an image that is not all here.
func (i *Images) ManifestOf(ctx context.Context, img image.Image) (blob.Manifest, error) {
	store, err := i.Store(ctx)
	if err != nil {
		return blob.Manifest{}, err
	}
	return store.Manifest(ctx, img.Lazy.Manifest)
}

// LocalBytes counts the bytes of an image that need not be got any more, as far as they are sure to
// last. Blocks of zeros count.
func (i *Images) LocalBytes(ctx context.Context, img image.Image) (int64, error) {
	m, err := i.ManifestOf(ctx, img)
	if err != nil {
		return 0, err
	}
	store, err := i.Store(ctx)
	if err != nil {
		return 0, err
	}
	p, err := store.Presence(m)
	here := m.Size
	for _, i := range p.Missing {
		here -= int64(m.Chunks[i].Size)
	}
	return here, err
}
