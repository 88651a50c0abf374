// Package images gets the images of boxes: makes or pulls them as agentbox.lock pins them,
// completes those that come lazily while boxes run from them, mends damaged ones, and takes new
// ones into the store. It knows boxes by the names that a function gives it only, and machines by
// what reads their image.
package images
