package qemu

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"agentbox/vmm"
)

// Config is what a driver depends on. It never changes after New.
type Config struct {
	// The QEMU program; "" finds qemu-system-x86_64 in PATH.
	Binary string
	// StateDir is an existing directory for what the driver finds out about this host. Several
	// processes may share it, and losing its content costs a second.
	StateDir string
	// Kernel returns a kernel directory, with which a guest is booted to find out whether KVM
	// works. It may build or fetch one, so it is called only when KVM has to be tried; nil means
	// that KVM is not used.
	Kernel func(ctx context.Context) (dir string, err error)
	// Accel forces kvm or tcg; "" finds out which.
	Accel string
	// ModifyArgv, if not nil, changes the command line of machines that boot, which are not
	// confined then. It is for measurements only.
	ModifyArgv func(argv []string) []string
	// Log receives what no error can report; nil drops it.
	Log *slog.Logger
}

// Driver implements vmm.Driver and vmm.Templater. It holds no machine.
type Driver struct {
	config Config
	device string // KVM's

	mu    sync.Mutex // guards what follows, and is held while KVM is tried
	known *memo

	noKernel   error // of the last attempt to have a kernel, at noKernelAt
	noKernelAt time.Time
}

var (
	_ vmm.Driver    = (*Driver)(nil)
	_ vmm.Templater = (*Driver)(nil)
)

// New makes a driver. It touches nothing; Probe finds out whether there is a QEMU.
func New(config Config) *Driver {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	return &Driver{config: config, device: kvmDevice}
}
