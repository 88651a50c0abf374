package oci

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
)

// PutImage writes a container image for Linux with these layers, each an archive that a function writes,
// and returns a reference by its digest. dir is where they are put together.
func PutImage(ctx context.Context, ref, arch, dir string, env []string, layers ...func(io.Writer) error) (string, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, write := range layers {
		l, err := newLayer(dir, write)
		if err != nil {
			return "", err
		}
		defer os.Remove(l.path)
		if img, err = mutate.Append(img, mutate.Addendum{Layer: l, MediaType: types.OCILayer}); err != nil {
			return "", err
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		return "", err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config.Env = "linux", arch, env
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return "", err
	}
	return write(ctx, ref, img)
}

func newLayer(dir string, write func(io.Writer) error) (blob, error) {
	f, err := os.CreateTemp(dir, "layer-")
	if err != nil {
		return blob{}, err
	}
	defer f.Close()
	packed, plain := sha256.New(), sha256.New()
	z, _ := gzip.NewWriterLevel(io.MultiWriter(f, packed), gzip.BestSpeed)
	if err := errors.Join(write(io.MultiWriter(z, plain)), z.Close()); err != nil {
		return blob{}, errors.Join(err, os.Remove(f.Name()))
	}
	info, err := f.Stat()
	if err != nil {
		return blob{}, err
	}
	hash := func(b []byte) v1.Hash { return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(b)} }
	return blob{f.Name(), types.OCILayer, hash(packed.Sum(nil)), hash(plain.Sum(nil)), info.Size()}, nil
}
