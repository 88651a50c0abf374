// Package hosts has tests on hosts other than this one, made of Debian packages from this host's
// apt sources: what other releases call QEMU, and a machine on which KVM works. They take many
// minutes and some GB, so `make test` leaves them out: see `make e2e-qemu` and `make e2e-kvm`.
package hosts
