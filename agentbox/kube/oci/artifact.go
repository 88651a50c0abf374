// Package oci keeps sources and results of tasks as artifacts of an OCI registry, and makes images there: a
// manifest, and a blob for each file. It uses the credentials of whoever runs it, as docker does.
//
// Bytes are compared with their digests; what they say is for the caller to judge.
package oci

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"agentbox/agentbox"
)

// Types of the files of artifacts. About has JSON.
const (
	About      types.MediaType = "application/vnd.agentbox.about+json"
	Source     types.MediaType = "application/vnd.agentbox.source"
	Transcript types.MediaType = "application/x-asciicast"
	Pack       types.MediaType = "application/vnd.agentbox.pack"
)

const configType types.MediaType = "application/vnd.agentbox.config+json"

// File is a file of an artifact that is written.
type File struct {
	Type types.MediaType
	Path string
}

// Artifact is one that can be read.
type Artifact struct{ image v1.Image }

func options(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithUserAgent("agentbox")}
}

// Find returns a reference by digest of what is there; NotFound if nothing is.
func Find(ctx context.Context, ref string) (string, error) {
	r, err := name.ParseReference(ref)
	if err != nil {
		return "", agentbox.Errorf(agentbox.Invalid, "%q: %w", ref, err)
	}
	d, err := remote.Head(r, options(ctx)...)
	if err != nil {
		return "", registryError(ref, err)
	}
	return r.Context().Name() + "@" + d.Digest.String(), nil
}

// Open finds an artifact; NotFound if there is none.
func Open(ctx context.Context, ref string) (Artifact, error) {
	r, err := name.ParseReference(ref)
	if err != nil {
		return Artifact{}, agentbox.Errorf(agentbox.Invalid, "%q: %w", ref, err)
	}
	img, err := remote.Image(r, options(ctx)...)
	return Artifact{img}, registryError(ref, err)
}

// File opens the file of a type. The error is Corrupt if there is none.
func (a Artifact) File(t types.MediaType) (io.ReadCloser, error) {
	layers, err := a.image.Layers()
	if err != nil {
		return nil, err
	}
	for _, l := range layers {
		if got, err := l.MediaType(); err == nil && got == t {
			return l.Compressed()
		}
	}
	return nil, agentbox.Errorf(agentbox.Corrupt, "the artifact has no %s", t)
}

// maxAbout bounds what an artifact says, in bytes.
const maxAbout = 4 << 20

// Read decodes what an artifact says.
func (a Artifact) Read(v any) error {
	f, err := a.File(About)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := json.NewDecoder(io.LimitReader(f, maxAbout)).Decode(v); err != nil {
		return agentbox.Errorf(agentbox.Corrupt, "the artifact does not say what it is: %w", err)
	}
	return nil
}

// Put writes an artifact, and returns a reference by its digest. about may be nil.
func Put(ctx context.Context, ref string, about any, files ...File) (string, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), configType)
	var add []mutate.Addendum
	if about != nil {
		b, err := json.Marshal(about)
		if err != nil {
			return "", err
		}
		add = append(add, mutate.Addendum{Layer: static.NewLayer(b, About), MediaType: About})
	}
	for _, f := range files {
		l, err := newBlob(f.Path, f.Type)
		if err != nil {
			return "", err
		}
		add = append(add, mutate.Addendum{Layer: l, MediaType: f.Type})
	}
	img, err := mutate.Append(img, add...)
	if err != nil {
		return "", err
	}
	return write(ctx, ref, img)
}

func write(ctx context.Context, ref string, img v1.Image) (string, error) {
	r, err := name.ParseReference(ref)
	if err != nil {
		return "", agentbox.Errorf(agentbox.Invalid, "%q: %w", ref, err)
	}
	d, err := img.Digest()
	if err == nil {
		err = remote.Write(r, img, options(ctx)...)
	}
	return r.Context().Name() + "@" + d.String(), registryError(ref, err)
}

func registryError(ref string, err error) error {
	var t *transport.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &t) && t.StatusCode == http.StatusNotFound:
		return agentbox.Errorf(agentbox.NotFound, "the registry has no %s", ref)
	case errors.As(err, &t) && (t.StatusCode == http.StatusUnauthorized || t.StatusCode == http.StatusForbidden):
		return agentbox.Errorf(agentbox.Conflict, "the registry does not allow %s: %w", ref, err).WithHint("docker login, or the like, as the user of this machine; registrySecret: in k8s.yaml for pods")
	}
	return agentbox.Errorf(agentbox.Unavailable, "registry: %s: %w", ref, err)
}

// blob is a file as a layer (v1.Layer).
type blob struct {
	path   string
	kind   types.MediaType
	digest v1.Hash
	diff   v1.Hash // of the archive in it, for a layer of an image
	size   int64
}

func newBlob(path string, kind types.MediaType) (blob, error) {
	f, err := os.Open(path)
	if err != nil {
		return blob{}, err
	}
	defer f.Close()
	d, n, err := v1.SHA256(f)
	return blob{path, kind, d, d, n}, err
}

func (b blob) Digest() (v1.Hash, error)             { return b.digest, nil }
func (b blob) DiffID() (v1.Hash, error)             { return b.diff, nil }
func (b blob) Compressed() (io.ReadCloser, error)   { return os.Open(b.path) }
func (b blob) Uncompressed() (io.ReadCloser, error) { return os.Open(b.path) }
func (b blob) Size() (int64, error)                 { return b.size, nil }
func (b blob) MediaType() (types.MediaType, error)  { return b.kind, nil }
