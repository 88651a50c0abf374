package image

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"agentbox/agentbox"
)

// refName is the annotation that has the name of an image in a layout.
const refName = "org.opencontainers.image.ref.name"

// openLayout finds the image that rest, DIR[:TAG|@DIGEST], names for the recipe's platform. It
// verifies the digest of every index and manifest on the way. Layers are verified when they are
// applied.
func openLayout(rest string, r Recipe) (v1.Image, error) {
	dir, tag := splitTag(rest)
	if _, err := os.Stat(filepath.Join(dir, "index.json")); err != nil {
		return nil, missingSource(dir, err)
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Corrupt, "%s is not an OCI layout: %w", dir, err)
	}
	desc, err := selectManifest(index, tag, r)
	if err != nil {
		return nil, err
	}
	for depth := 0; desc.MediaType.IsIndex(); depth++ {
		if depth > 4 {
			return nil, agentbox.Errorf(agentbox.Corrupt, "the indexes of %s are nested too deeply", dir)
		}
		if index, err = index.ImageIndex(desc.Digest); err != nil {
			return nil, err
		}
		if err := verify(r.Source, desc.Digest, index.RawManifest); err != nil {
			return nil, err
		}
		if desc, err = selectManifest(index, "", r); err != nil {
			return nil, err
		}
	}
	img, err := index.Image(desc.Digest)
	if err != nil {
		return nil, err
	}
	return img, verify(r.Source, desc.Digest, img.RawManifest)
}

func verify(source string, want v1.Hash, read func() ([]byte, error)) error {
	raw, err := read()
	if err != nil {
		return err
	}
	if got := hashOf(sha256.Sum256(raw)); got != want {
		return agentbox.Errorf(agentbox.Corrupt, "a manifest or configuration of image %s has the digest %s instead of %s", source, got, want)
	}
	return nil
}

func hashOf(d agentbox.Digest) v1.Hash { return v1.Hash{Algorithm: "sha256", Hex: d.Hex()} }

// selectManifest chooses by tag or digest and by platform. Exactly one must fit. A tag is a whole
// name in the layout, or what follows a colon in it.
func selectManifest(index v1.ImageIndex, tag string, r Recipe) (v1.Descriptor, error) {
	m, err := index.IndexManifest()
	if err != nil {
		return v1.Descriptor{}, agentbox.Errorf(agentbox.Corrupt, "the index of %s is unreadable: %w", r.Source, err)
	}
	want, err := v1.ParsePlatform(r.Platform)
	if err != nil {
		return v1.Descriptor{}, agentbox.Errorf(agentbox.Invalid, "platform %q: %w", r.Platform, err)
	}
	var fit []v1.Descriptor
	var tags []string
	for _, d := range m.Manifests {
		name := d.Annotations[refName]
		if name != "" {
			tags = append(tags, name)
		}
		// An entry without a platform fits any.
		named := tag == "" || tag == "@"+d.Digest.String() || tag == name || strings.HasSuffix(name, ":"+tag)
		if named && (d.Platform == nil || d.Platform.Satisfies(*want)) && (d.MediaType.IsImage() || d.MediaType.IsIndex()) {
			fit = append(fit, d)
		}
	}
	switch len(fit) {
	case 1:
		return fit[0], nil
	case 0:
		return v1.Descriptor{}, agentbox.Errorf(agentbox.NotFound, "%s has no image for %s", r.Source, r.Platform).
			WithHint("it has the tags %s", strings.Join(tags, ", "))
	}
	return v1.Descriptor{}, agentbox.Errorf(agentbox.Invalid, "%s has %d images for %s", r.Source, len(fit), r.Platform).
		WithHint("add a tag: %s", strings.Join(tags, ", "))
}
