// Package nbd serves one read-only image over the Network Block Device protocol (the "fixed
// newstyle" handshake, simple replies), which QEMU's block layer speaks. It is how a microVM starts
// before its image is all here; vmm/fusefile does the same for gVisor. It knows nothing of where
// the bytes come from, and offers no writing, no TLS and no extensions.
//
// The server runs in the supervisor, at the other end of a socket pair that QEMU inherits. The
// client is QEMU, which a guest may have taken over: whatever it sends is checked against bounds
// before memory is set aside for it, and the worst it gets is the image, which it may read anyway.
// server.go has the conversation, protocol.go the shapes of messages, without any input or output
// of its own but readers and writers that it is given, so that a fuzz target can feed it.
//
// The protocol is in the NetworkBlockDevice project's doc/proto.md; names of constants are from
// there. All numbers are big-endian.
package nbd
