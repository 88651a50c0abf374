#!/bin/sh
# github.com/google/go-containerregistry v0.22.1, Go 1.26
#
# mutate.Time: "sets all timestamps in an image to the given timestamp". Builders call it (and
# mutate.Canonical, which calls it) to make images the same twice.
# Expected of an OCI image for linux/arm/v7: the same image with other timestamps.
# Seen: a new image that has only some of the old one: manifest, configuration and layers have Docker's
# media types in place of OCI's, the annotations of the manifest and of the layers are gone, and so is the
# platform's variant: an image for arm/v7 is one for arm. Author and os.features go, too. No error is given.
# Exits 0 if it is still so, 1 if it has changed, 2 if it could not be installed.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'M'
module example.com/image

go 1.26

require github.com/google/go-containerregistry v0.22.1
M
cat >main.go <<'M'
package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"path"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func show(what string, image v1.Image) {
	m, c := must(image.Manifest()), must(image.ConfigFile())
	fmt.Printf("%s: %s\n", what, c.Platform())
	fmt.Println(" ", path.Base(string(m.MediaType)), m.Annotations)
	fmt.Println(" ", path.Base(string(m.Config.MediaType)), c.Author, c.OSFeatures)
	fmt.Println(" ", path.Base(string(m.Layers[0].MediaType)), m.Layers[0].Annotations)
}

func main() {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := w.WriteHeader(&tar.Header{Name: "file", Mode: 0o644}); err != nil {
		panic(err)
	}
	w.Close()
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image = must(mutate.Append(image, mutate.Addendum{
		Layer:       static.NewLayer(layer.Bytes(), types.OCIUncompressedLayer),
		Annotations: map[string]string{"layer": "yes"},
	}))
	config := must(image.ConfigFile()).DeepCopy()
	config.OS, config.Architecture, config.Variant = "linux", "arm", "v7"
	config.Author, config.OSFeatures = "me", []string{"f"}
	image = must(mutate.ConfigFile(image, config))
	image = mutate.Annotations(image, map[string]string{"image": "yes"}).(v1.Image)
	show("before", image)
	show("after", must(mutate.Time(image, time.Unix(1, 0))))
}
M
GOFLAGS=-mod=mod GOWORK=off go build -o image . || { echo "could not be installed" >&2; exit 2; }
./image >seen
cat seen
cmp - seen <<'M'
before: linux/arm/v7
  vnd.oci.image.manifest.v1+json map[image:yes]
  vnd.oci.image.config.v1+json me [f]
  vnd.oci.image.layer.v1.tar map[layer:yes]
after: linux/arm
  vnd.docker.distribution.manifest.v2+json map[]
  vnd.docker.container.image.v1+json  []
  vnd.docker.image.rootfs.diff.tar.gzip map[]
M
