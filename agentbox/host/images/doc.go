// Package images gets the images of boxes: it makes or pulls them as agentbox.lock pins them,
// completes those that arrive lazily while boxes run from them, repairs damaged ones, and adds new
// ones to the store. It does not know boxes, only the names of those that use an image.
//
// An image is a file in vmm/image's store, named by its digest. A lazy image has a description and
// a manifest, and only some of its blocks are here. completion.go fetches the rest, with one
// LazyImage for each image. ChunkStore, implemented by layers, has the bytes and knows where to get
// more. A machine that needs a missing block waits in Need, through its supervisor.
//
// Blocks have 512 KiB, each with its SHA-256 in a manifest; zeros are named but not stored. Those that
// arrived lie in a sparse file; one that another image has is copied from there. A block is checked
// before it is written, and read only after that; a damaged one is asked of each of the last 16
// remotes. The whole is hashed once more and becomes a plain file. What a machine waits for comes
// first, alone; next what the first box on another machine read (the trace, part of an export); the
// rest when nobody has needed anything for 5 seconds.
//
// The daemon has the store and fetches. The supervisor (or the daemon while a template is made)
// reads the sparse file, and asks the daemon for what it does not know to be there. QEMU is its NBD
// client over an inherited socket; gVisor maps a FUSE file that the launcher mounts in the machine's
// own namespaces. Without /dev/fuse, the whole image is fetched first, as it is to lay something over
// it (include, setup results).
//
// Images that were built or imported here enter the store by themselves, in a team at once, otherwise
// a minute or two later, at 32 MiB/s, as hard links.
//
// An image never changes: a digest's bytes are these or damaged. Damaged images are repaired from
// the store or from remotes, or refused. An image that can no longer be completed is made anew,
// unless a box runs from it.
package images
