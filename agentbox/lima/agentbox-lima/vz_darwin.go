//go:build cgo

package main

// Apple's virtualization is reached by cgo, so only a build on a Mac has it; others have QEMU.
import _ "github.com/lima-vm/lima/v2/pkg/driver/vz"
