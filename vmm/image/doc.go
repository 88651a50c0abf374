// Package image makes and keeps images: it turns a recipe (Debian packages, or an OCI image from a
// registry, a layout or a saved archive, plus directories of this host) into one erofs file named
// by its digest, once. It starts no machines, and it trusts neither layers, registries nor the
// files in its own store: what it hands out was checked against a digest.
//
// Words: a recipe says what an image is made from; its key identifies it, contents of included
// directories and local archives among it. The base of a recipe is the recipe without what it
// includes from this host: it is an image of its own, which another machine can build too, so it is
// the base that agentbox.lock pins. A derivation is one image with layers on top, made by what the
// key says. A lazy image is one whose file is not all here: its blocks come as a machine reads
// them.
//
// The way of a recipe: EnsureLocked (locked.go) reads what agentbox.lock pins and asks Ensure
// (ensure.go), which looks in the store, asks Store.Elsewhere, and else builds: from apt with
// mmdebstrap (apt.go, bootstrap.go) or from OCI layers (oci.go, download.go), into a tree in memory
// (vmm/image/rootfs), which prepare.go makes fit for a box and build.go writes as one file.
// include.go and never.go copy from this host, and decide what must not be copied. verify.go keeps
// track of which files were verified.
//
// What always holds: an image directory is complete or cleared at the next Open; a build is in a
// directory of its own, which is locked as long as it runs; of one key there is one build at a
// time, on this host; equal recipes of equal sources give equal bytes (version says when that
// changes); no image has a private key or an id that its packages made (perbox.go). Callers are
// host/images, host/recipes, layers and the team's rooms, all in the daemon. The files are listed
// in files.go and docs/internals/formats.md.
package image
