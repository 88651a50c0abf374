// Package images gets the images of boxes: makes or pulls them as agentbox.lock pins them,
// completes those that come lazily while boxes run from them, mends damaged ones, and takes new
// ones into the store. It knows boxes by the names that a function gives it only, and machines by
// what reads their image.
//
// Images (room.go) is the room. An image is a file of vmm/image's store, named by its digest, or
// expected: lazy, with a description and a manifest, and only some of its blocks here. Lazy ones
// are completed here (completion.go), one Filling each; the store of chunks (Content, implemented
// by layers) has the bytes and knows from where more can be had. A machine that needs a block that
// has not come waits in Need, through its supervisor.
//
// An image changes for nobody: what has a digest has these bytes or is damaged, and damaged ones
// are repaired from the store or other places, or refused. What is never all to be had any more is
// made anew, unless a box runs from it.
package images
