// Package layers keeps this home's layers in the store: images, what setup made, templates and
// kernels, each under a signed name by which it is found again, here and in the team. It joins
// packages that know what the things are (vmm/image, vmm/kernel, caches) to package cachestore,
// which knows bytes, and to mesh/exchange, which brings them from peers. It decides nothing about
// boxes, and asks no peer who is not a member: that is the mesh's business.
//
// Opening is the store, which opens while the daemon serves already; everything else waits for it
// in its Store function. Images has images, whole ones by reference to their file and those that
// come piece by piece (LazyImage); SetupResults what setup made, by key; Archives templates and
// kernels. Remotes is where missing pieces are asked for, Sharing what peers may have of ours. The
// daemon makes one of each (daemon/shares.go) and hands them to host's rooms and to team, which see
// small interfaces.
//
// Invariants. Bytes are verified by their digests before anything uses them, wherever they came
// from; a description that comes with them is checked as text and for its bounds. A name is signed
// by its producer: it is taken over as it is (Take) or made anew by us (Publish), never changed.
// What has files of this host in it has scope Local and does not leave it. Nothing is handed out
// while it cannot be read what somebody took back (Sharing).
//
// Names are NAMESPACE/KEY: image/DIGEST, image/DIGEST/about, setup/FAMILY/KEY, template/KEY/IMAGE,
// kernel/ARCHITECTURE/RELEASE.
package layers
