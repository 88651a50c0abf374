// Package images gets the images of boxes: it makes or pulls them as agentbox.lock pins them,
// completes those that arrive lazily while boxes run from them, repairs damaged ones, and adds new
// ones to the store. It does not know boxes, only the names of those that use an image.
//
// An image is a file in vmm/image's store, named by its digest. A lazy image has a description and
// a manifest, and only some of its blocks are here. completion.go fetches the rest, with one
// LazyImage for each image. ChunkStore, implemented by layers, has the bytes and knows where to get
// more. A machine that needs a missing block waits in Need, through its supervisor.
//
// An image never changes: a digest's bytes are these or damaged. Damaged images are repaired from
// the store or from remotes, or refused. An image that can no longer be completed is made anew,
// unless a box runs from it.
package images
