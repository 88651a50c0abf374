// Package nbd serves one read-only image over the Network Block Device protocol (the "fixed
// newstyle" handshake, simple replies), which QEMU's block layer speaks. It knows nothing of where
// the bytes come from, and offers no writing, no TLS and no extensions.
//
// The protocol is in the NetworkBlockDevice project's doc/proto.md; names of constants are from
// there.
package nbd
