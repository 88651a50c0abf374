package layers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/vmm/image"
)

// Offer is something of ours that the team may have. Exactly one of Image, Key, Template and Kernel
// is set.
type Offer struct {
	Name  blob.Name       // signed by its maker
	Image agentbox.Digest // of an image; zero for what setup made
	Key   agentbox.Digest // of what setup made; zero for an image
	// Of a template and of a kernel, "" of anything else.
	Template, Kernel string // the template's key; the kernel's architecture and release
}

// Offers lists what the team may have, as its names are now. It reads every name of the store, and
// is asked when names change.
func (s *Sharing) Offers(ctx context.Context) ([]Offer, error) {
	store, err := s.Store(ctx)
	if err != nil {
		return nil, err
	}
	names, err := store.Names("", "")
	if err != nil {
		return nil, err
	}
	var out []Offer
	for _, n := range names {
		o, ok := offerOf(n)
		if !ok {
			continue
		}
		shared, err := s.IsShared(ctx, n.Manifest, []blob.Name{n})
		if err != nil {
			return nil, err
		}
		if shared {
			out = append(out, o)
		}
	}
	return out, nil
}

// offerOf returns what a name is of, false when it is of nothing that is offered.
func offerOf(n blob.Name) (o Offer, ok bool) {
	o.Name = n
	if o.Image, ok = ImageOf(n); ok {
		return o, true
	}
	if o.Key, ok = KeyOf(n); ok {
		return o, true
	}
	if o.Template, _, ok = TemplateOf(n); ok {
		return o, true
	}
	if _, _, ok = KernelOf(n); ok {
		o.Kernel = n.Key
	}
	return o, ok
}

// aboutSuffix follows the digest in the key of the name of what describes an image.
const aboutSuffix = "/about"

// aboutType is the media type of the description of an image: its JSON.
const aboutType = "application/vnd.agentbox.image+json"

// maxAbout bounds a description: thousands of packages, with their versions.
const maxAbout = 4 << 20

// PutDescription puts the description of an image into the store, for peers who want the image, and
// gives its manifest. It is published under a name of its own, which keeps it as long as the image.
// What the description says of this host's state (Lazy) is left out.
func (i *Images) PutDescription(ctx context.Context, img image.Image) (agentbox.Digest, error) {
	store, err := i.Store(ctx)
	if err != nil {
		return agentbox.Digest{}, err
	}
	img.Lazy = nil
	b, err := json.Marshal(img)
	if err != nil {
		return agentbox.Digest{}, err
	}
	stored, err := store.PutStream(ctx, bytes.NewReader(b), blob.Info{Kind: blob.Image, MediaType: aboutType})
	if err != nil {
		return agentbox.Digest{}, err
	}
	n := nameFor(img, stored.Manifest)
	n.Key, n.Comment = n.Key+aboutSuffix, comment("describes "+img.Name)
	if old, err := store.Lookup(n.Namespace, n.Key); err == nil && old.Manifest == n.Manifest {
		return n.Manifest, nil
	}
	if err := unpublishOther(store, n); err != nil {
		return n.Manifest, err
	}
	_, err = store.Publish(ctx, n)
	return n.Manifest, err
}

// FetchDescription gets the description of an image from the team. It may wait for peers, until ctx
// is done. What comes back is text that may be shown, and has neither path nor remote: the caller
// sets what it needs.
func (i *Images) FetchDescription(ctx context.Context, about, digest agentbox.Digest) (image.Image, error) {
	store, err := i.Store(ctx)
	if err != nil {
		return image.Image{}, err
	}
	src := i.Remotes.Source(Team)
	m, err := store.EnsureManifest(ctx, about, src)
	if err != nil {
		return image.Image{}, err
	}
	if m.Size > maxAbout {
		return image.Image{}, agentbox.Errorf(agentbox.Corrupt, "the description of image %s has %d bytes", digest.Short(), m.Size)
	}
	r, err := store.OpenBlob(ctx, about, src)
	if err != nil {
		return image.Image{}, err
	}
	b, err := io.ReadAll(io.NewSectionReader(r, 0, m.Size))
	if err = errors.Join(err, r.Close()); err != nil {
		return image.Image{}, err
	}
	return decodeAbout(b, digest)
}

// decodeAbout reads a description that somebody else wrote. Corrupt for everything that it refuses.
// An image with files of somebody else's host is refused, too: its maker should not have offered
// it.
func decodeAbout(b []byte, digest agentbox.Digest) (image.Image, error) {
	img, err := image.Decode(b, digest)
	if err != nil {
		return img, err
	}
	for _, s := range append([]string{img.Name, img.Source, img.Platform, img.Key, img.Origin}, img.BaseMakers...) {
		if comment(s) != s {
			return image.Image{}, agentbox.Errorf(agentbox.Corrupt, "the description of image %s has text that is too long or not printable", digest.Short())
		}
	}
	if err := checkText(img); err != nil {
		return image.Image{}, err
	}
	if img.Size <= 0 || len(img.Include) > 0 {
		return image.Image{}, agentbox.Errorf(agentbox.Corrupt, "the description of image %s is of none that others may have", digest.Short())
	}
	img.Lazy, img.Path = nil, ""
	return img, nil
}

// checkText fails when a description that somebody else wrote has what a terminal would take for
// more than text: it is shown to users.
func checkText(img image.Image) error {
	texts := slices.Concat([]string{img.Name, img.Source, img.Platform, img.Key, img.Origin, img.Manifest}, img.BaseMakers, img.Versions, img.Packages, img.Env)
	if slices.ContainsFunc(texts, func(s string) bool {
		return strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
	}) {
		return agentbox.Errorf(agentbox.Corrupt, "the description of image %s has text that cannot be shown", img.Digest.Short())
	}
	return nil
}

// Adopt makes the store expect an image of which somebody whose names are believed has signed the
// name. Its pieces come from the team. img.Lazy names the manifest that n does. Whether the
// producer is believed, Take judges.
func (i *Images) Adopt(ctx context.Context, img image.Image, n blob.Name) error {
	if d, ok := ImageOf(n); !ok || d != img.Digest || img.Lazy == nil || n.Manifest != img.Lazy.Manifest {
		return agentbox.Errorf(agentbox.Corrupt, "the name of image %s is of something else", img.Digest.Short())
	}
	store, err := i.expect(ctx, img)
	if err != nil {
		return err
	}
	return store.AddName(ctx, n)
}

// Adopt gets what setup made elsewhere, all of it, under the name by which who made it published
// it. It returns when everything is here and was verified. A result that is published under a key
// which is not its own is Corrupt: a member could otherwise put a result in the place of another's.
func (s SetupResults) Adopt(ctx context.Context, remotes *Remotes, n blob.Name, progress func(done, total int)) error {
	if _, ok := KeyOf(n); !ok {
		return agentbox.Errorf(agentbox.Corrupt, "%.80q is not the name of a setup result", n.Key)
	}
	store, err := s.Store(ctx)
	if err != nil {
		return err
	}
	if err := store.Fetch(ctx, n.Manifest, remotes.Source(Team), progress); err != nil {
		return err
	}
	made, err := madeAs(ctx, store, n)
	if err == nil {
		err = checkKey(made)
	}
	if err != nil {
		return err
	}
	return store.AddName(ctx, n)
}

// NamesByImage lists the keys of what setup made here on images that are gone for good. gone is
// asked for each result, and told the image that it was made on.
func (s SetupResults) NamesByImage(ctx context.Context, gone func(image agentbox.Digest) bool) ([]blob.Name, error) {
	store, err := s.Store(ctx)
	if err != nil {
		return nil, err
	}
	names, err := store.Names(namespace, "")
	if err != nil {
		return nil, err
	}
	var out []blob.Name
	for _, n := range names {
		// One that is damaged is passed over: its next user says so.
		if made, err := madeAs(ctx, store, n); err == nil && gone(made.Ingredients.Image) {
			out = append(out, n)
		}
	}
	return out, nil
}

// Drop forgets a name, and the space of what it stands for.
func (s SetupResults) Drop(ctx context.Context, n blob.Name) error {
	store, err := s.Store(ctx)
	if err != nil {
		return err
	}
	return store.Forget(ctx, n.Namespace, n.Key)
}

// Revoked lists the names whose producers are no longer trusted.
func (s SetupResults) Revoked(ctx context.Context) ([]blob.Name, error) {
	store, err := s.Store(ctx)
	if err != nil {
		return nil, err
	}
	return store.Untrusted()
}
