#!/bin/sh
# github.com/google/go-containerregistry v0.22.1, Go 1.26
# OCI image specification, layer.md: "Whiteout files MUST only apply to resources in lower/parent layers.
# Files that are present in the same layer as a whiteout file can only be hidden by whiteout files in
# subsequent layers."
# Expected of mutate.Extract (crane export): a layer that removes d and makes it anew has its own d, with
# whatever order its entries have; as with the other kind of whiteout, .wh..wh..opq.
# Seen: entries of the layer itself that come after the whiteout are hidden, too. With .wh.d before d/ and
# d/new, all of d is missing from the flattened file system; with .wh.d last, it is complete; in between, a
# part of it is there. No error, and the layers' digests are right: only a comparison with an unpacked image
# shows the loss.
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
	"errors"
	"fmt"
	"io"
	"strings"

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

func layer(names ...string) v1.Layer {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range names {
		h := &tar.Header{Name: name, Mode: 0o644, Typeflag: tar.TypeReg}
		if strings.HasSuffix(name, "/") {
			h.Mode, h.Typeflag = 0o755, tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			panic(err)
		}
	}
	w.Close()
	return static.NewLayer(b.Bytes(), types.OCIUncompressedLayer)
}

func main() {
	for _, names := range [][]string{
		{"d/", "d/new", ".wh.d"},
		{"d/", ".wh.d", "d/new"},
		{".wh.d", "d/", "d/new"},
		{"d/.wh..wh..opq", "d/", "d/new"},
	} {
		image := must(mutate.AppendLayers(empty.Image, layer("d/", "d/old", "e"), layer(names...)))
		fmt.Print(strings.Join(names, " "), " ->")
		for r := tar.NewReader(mutate.Extract(image)); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			fmt.Print(" ", must(h, err).Name)
		}
		fmt.Println()
	}
}
M
GOFLAGS=-mod=mod GOWORK=off go build -o image . || { echo "could not be installed" >&2; exit 2; }
./image >seen
cat seen
cmp - seen <<'M'
d/ d/new .wh.d -> d d/new e
d/ .wh.d d/new -> d e
.wh.d d/ d/new -> e
d/.wh..wh..opq d/ d/new -> d d/new e
M
