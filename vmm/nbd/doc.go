// Package nbd serves one read-only image over the Network Block Device protocol (the "fixed
// newstyle" handshake, simple replies), which QEMU's block layer speaks. It does not know where the
// bytes come from, and offers no writing, no TLS and no extensions. A microVM uses it to start
// before its image is completely here; vmm/fusefile does the same for gVisor.
//
// The server runs in the supervisor, at the other end of a socket pair that QEMU inherits. A guest
// may have taken over QEMU, so everything it sends is checked against bounds before memory is set
// aside for it. The worst it gets is the image, which it may read anyway. server.go has the
// conversation. protocol.go has the messages and does no input or output but through the readers
// and writers that it is given, so that a fuzz target can feed it.
//
// The protocol is in the NetworkBlockDevice project's doc/proto.md, and so are the names of
// constants. All numbers are big-endian.
package nbd
