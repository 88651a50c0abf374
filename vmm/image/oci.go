package image

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"agentbox/agentbox"
	"agentbox/vmm/image/rootfs"
)

// oci makes the root file system of a container image. It compares every layer with its digest in
// the configuration, and downloads layers from a registry while it applies earlier ones. r is
// normalized. Errors are those of ociError.
func (b *build) oci(ctx context.Context, r Recipe) error {
	k, rest := r.source()
	img, err := openOCI(ctx, k, rest, r)
	if err != nil {
		return ociError(r.Source, err)
	}
	config, err := b.describeOCI(img, k, r)
	if err != nil {
		return ociError(r.Source, err)
	}
	layers, err := img.Layers()
	if err != nil {
		return ociError(r.Source, err)
	}
	// The manifest lists the layers, and the configuration their digests.
	if len(layers) != len(config.RootFS.DiffIDs) {
		return agentbox.Errorf(agentbox.Corrupt, "image %s has %d layers but digests for %d", r.Source, len(layers), len(config.RootFS.DiffIDs))
	}
	open := func(i int) (io.ReadCloser, error) { return layers[i].Uncompressed() } // of this host
	if k == fromRegistry {
		ctx, cancel := context.WithCancel(ctx)
		d, err := b.download(ctx, r.Source, layers)
		if err != nil {
			cancel()
			return ociError(r.Source, err)
		}
		// Deferred calls run backwards: cancel the downloads, then wait for them.
		defer d.wait()
		defer cancel()
		open = d.open
	}
	for i, id := range config.RootFS.DiffIDs {
		b.progress.Update(step, fmt.Sprintf("unpack layer %d of %d", i+1, len(layers)), int64(i), int64(len(layers)))
		if err := b.layer(ctx, id, open, i); err != nil {
			return ociError(r.Source, err)
		}
	}
	return nil
}

// layer applies layer i and verifies it. After an error the tree is of no use. open returns the
// uncompressed layer.
func (b *build) layer(ctx context.Context, id v1.Hash, open func(int) (io.ReadCloser, error), i int) error {
	rc, err := open(i)
	if err != nil {
		return err
	}
	defer rc.Close()
	h := sha256.New()
	in := io.TeeReader(rootfs.WithContext(ctx, rc), h)
	applied := b.tree.ApplyTar(ctx, in, b.spool)
	if agentbox.CodeOf(applied) != "" && agentbox.CodeOf(applied) != agentbox.Corrupt {
		return applied
	}
	// The digest covers what follows the end of the archive. If it is wrong, that explains a broken
	// archive.
	if _, err := io.Copy(io.Discard, in); err != nil {
		return err
	}
	if got := hashOf(agentbox.Digest(h.Sum(nil))); got != id {
		return agentbox.Errorf(agentbox.Corrupt, "layer has the digest %s instead of %s", got, id)
	}
	return applied
}

// openOCI finds the image and reads no layer. It uses the user's credentials for a registry, and
// connects to public addresses only, unless Recipe.Private allows others.
func openOCI(ctx context.Context, k kind, rest string, r Recipe) (v1.Image, error) {
	switch k {
	case fromLayout:
		return openLayout(rest, r)
	case fromArchive:
		path, tag := splitTag(rest)
		if _, err := os.Stat(path); err != nil {
			return nil, missingSource(path, err)
		}
		if tag == "" {
			return tarball.ImageFromPath(path, nil)
		}
		t, err := name.NewTag(tag)
		if err != nil {
			return nil, agentbox.Errorf(agentbox.Invalid, "%q is not a tag: %w", tag, err)
		}
		return tarball.ImageFromPath(path, &t)
	}
	ref, err := reference(rest, r.Manifest)
	if err != nil {
		return nil, err
	}
	p, err := v1.ParsePlatform(r.Platform)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Invalid, "platform %q: %w", r.Platform, err)
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithPlatform(*p), remote.WithUserAgent("agentbox")}
	if !r.Private && !local(ref.Context().RegistryStr()) { // the consent to a source covers a name that is obviously private
		options = append(options, remote.WithTransport(publicTransport()))
	}
	return remote.Image(ref, options...)
}

// reference parses an image reference. A manifest digest from agentbox.lock replaces its tag. Code
// Invalid if it cannot be parsed.
func reference(s, manifest string) (name.Reference, error) {
	ref, err := name.ParseReference(s)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Invalid, "%q is not an image: %w", s, err).
			WithHint("image: takes apt:SUITE, oci:DIR, docker-archive:FILE or a reference as in registry.example/name:tag")
	}
	if manifest == "" {
		return ref, nil
	}
	pinned, err := name.NewDigest(ref.Context().Name() + "@" + manifest)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Invalid, "the manifest %q of %s in agentbox.lock is not a digest", manifest, s)
	}
	return pinned, nil
}

// metadataLabel has what a devcontainer.json would say, in images that were made for them.
const metadataLabel = "devcontainer.metadata"

// maxMetadata is the longest such label that is kept, in bytes. The largest known has 20 KB.
const maxMetadata = 256 << 10

// describeOCI verifies the configuration, which has the digests of layers, and sets what the image
// says of itself. An image for another platform is code Invalid.
func (b *build) describeOCI(img v1.Image, k kind, r Recipe) (*v1.ConfigFile, error) {
	if k != fromArchive { // an archive has no manifest of its own
		m, err := img.Manifest()
		if err != nil {
			return nil, err
		}
		if err := verify(r.Source, m.Config.Digest, img.RawConfigFile); err != nil {
			return nil, err
		}
		d, err := img.Digest()
		if err != nil {
			return nil, err
		}
		b.image.Manifest = d.String()
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	want := strings.Split(r.Platform, "/")
	if config.Architecture != "" && (config.Architecture != want[1] || config.OS != "" && config.OS != want[0]) {
		return nil, agentbox.Errorf(agentbox.Invalid, "image %s is for %s/%s, and %s is needed", r.Source, config.OS, config.Architecture, r.Platform)
	}
	b.image.Env, b.image.User = slices.Clone(config.Config.Env), config.Config.User
	b.image.Program = &Program{slices.Clone(config.Config.Entrypoint), slices.Clone(config.Config.Cmd), config.Config.WorkingDir, config.Config.User}
	if label := config.Config.Labels[metadataLabel]; len(label) <= maxMetadata {
		b.image.Metadata = label
	}
	return config, nil
}

// splitTag cuts PATH:TAG or PATH@DIGEST at the first separator before which there is a file, as
// both may contain colons. If there is no file, it cuts at the first colon of the last component.
func splitTag(s string) (path, tag string) {
	if _, err := os.Stat(s); err == nil {
		return s, ""
	}
	for i, c := range s {
		if c != ':' && c != '@' {
			continue
		}
		if _, err := os.Stat(s[:i]); err == nil {
			return s[:i], strings.TrimPrefix(s[i:], ":")
		}
	}
	dir, base := filepath.Split(s)
	base, tag, _ = strings.Cut(base, ":")
	return dir + base, tag
}
