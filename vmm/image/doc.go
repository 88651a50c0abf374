// Package image makes and keeps images: it turns a recipe (Debian packages, or an OCI image from a
// registry, a layout or a saved archive, plus directories of this host) into one erofs file named
// by its digest, once. It starts no machines, and it trusts neither layers, registries nor the
// files in its own store: what it hands out was checked against a digest.
//
// Words: a recipe says what an image is made from; its key identifies it, contents of included
// directories and local archives among it. The base of a recipe is the recipe without what it
// includes from this host: it is an image of its own, which another machine can build too, so it is
// the base that agentbox.lock pins.
package image
