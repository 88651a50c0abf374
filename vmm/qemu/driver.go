package qemu

import (
	"context"
	"log/slog"
	"sync"

	"agentbox/vmm"
)

// Config is what a driver needs to know of its surroundings.
type Config struct {
	// The fields are set before New and never change. Binary is the QEMU program; "" finds
	// qemu-system-x86_64 in PATH.
	Binary string
	// StateDir is an existing directory in which the driver remembers what it found out about this
	// host. It may be shared by several processes, and losing what is in it costs a second.
	StateDir string
	// Kernel gives a kernel directory, with which a guest is run to find out whether KVM works. It
	// may build or fetch one, so it is called only when KVM has to be tried; nil leaves KVM untried
	// and unused.
	Kernel func(ctx context.Context) (dir string, err error)
	// Accel forces kvm or tcg; "" finds out which.
	Accel string
	// Rewire, where it is not nil, changes the command line of machines that boot, and they are not
	// confined. It is for measuring beside what QEMU has itself: no machine of a box has it.
	Rewire func(argv []string) []string
	// Log receives what no caller can be told by an error; nil drops it.
	Log *slog.Logger
}

// Driver implements vmm.Driver and vmm.Snapshotter. It holds no machine: a Machine goes on without
// it.
type Driver struct {
	config Config
	device string // KVM's

	mu    sync.Mutex // guards what follows, and is held while KVM is tried
	known *memo
}

var (
	_ vmm.Driver      = (*Driver)(nil)
	_ vmm.Snapshotter = (*Driver)(nil)
)

// New makes a driver. It touches nothing: whether QEMU is there is for Probe to say.
func New(config Config) *Driver {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	return &Driver{config: config, device: kvmDevice}
}
