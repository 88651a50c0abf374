// Package hosts runs tests on hosts other than this one, built of Debian packages from this host's
// apt sources: hosts with the QEMU or git of other releases, and a machine on which KVM works. They take
// many minutes and some GB, so `make test` leaves them out: see `make e2e-qemu`, `make e2e-git` and
// `make e2e-kvm`.
package hosts
