// Package image makes and keeps images. It turns a recipe (Debian packages, or an OCI image from a
// registry, a layout or a saved archive, plus directories of this host) into one erofs file that is
// named by its digest. It starts no machines. It does not trust layers, registries or the files in
// its own store: every image that it returns was checked against a digest.
//
// Words: a recipe says what an image is made from. Its key identifies it, and covers the contents
// of included directories and local archives. The base of a recipe is the recipe without what it
// includes from this host. It is an image of its own that other machines can build, too, so
// agentbox.lock pins the base. A derivation is an image with layers on top. A lazy image is one
// whose file is not completely here: its blocks come as a machine reads them.
//
// EnsureLocked (locked.go) reads what agentbox.lock pins and calls Ensure (ensure.go), which looks
// in the store, asks Store.FindRemote, and otherwise builds: from apt with mmdebstrap (apt.go,
// bootstrap.go) or from OCI layers (oci.go, download.go), as a tree in memory (vmm/image/rootfs).
// prepare.go adds what boxes need, and build.go writes the file. include.go and exclusions.go copy
// from this host and decide what must not be copied. verify.go keeps track of which files were
// verified.
//
// What always holds:
//
//   - An image directory is complete, or cleared at the next Open.
//   - A build has a directory of its own, which is locked while it runs, and a key has one build at
//     a time on this host.
//   - Equal recipes from equal sources give equal bytes (version says when that changes), but for what
//     each box makes itself. `make reproducible` builds ten sets of packages twice and names every file
//     that differs: on Debian 12 none did (nodejs npm was not built to the end).
//   - No image has a private key or an id that its packages made (perbox.go), or a password of this
//     host's (apt.go).
//
// Callers are host/images, host/recipes, layers and the team's rooms, all in the daemon. The files
// are listed in files.go.
package image
