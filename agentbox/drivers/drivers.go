// Package drivers knows every kind of machine there is and opens its driver for a home. It is the
// one list of them: everything else knows vmm.Driver only, and tells kinds apart by their name.
//
// Open is called by the daemon, which then keeps a driver for each kind, and by each supervisor for
// its own. Kernels is what a microVM boots: it is here because a kernel is found, fetched and
// verified for a home, with this build's guest agent in it, and the driver is only told where it
// is.
//
// A new kind is a package below vmm that passes vmm/vmmtest, and a case in Open.
package drivers

import (
	"context"
	"log/slog"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/vmm"
	"agentbox/vmm/guest"
	"agentbox/vmm/gvisor"
	"agentbox/vmm/gvisor/runsc"
	"agentbox/vmm/qemu"
)

// EmbeddedGVisor is the version of the gVisor that this build brings along, or why it brings none:
// an error of code Missing.
func EmbeddedGVisor() (string, error) { return runsc.Version() }

// Open gives the driver of a kind of isolation. It does not find out whether the kind works here:
// the driver's own check does. An unknown kind has code Invalid.
func Open(kind agentbox.Isolation, h home.Home, log *slog.Logger) (vmm.Driver, error) {
	return NewKernels(h, log).Open(kind)
}

// Open is Open with these kernels, in their home.
func (k *Kernels) Open(kind agentbox.Isolation) (vmm.Driver, error) {
	h, log := k.home, k.log
	switch kind {
	case agentbox.MicroVM:
		return qemu.New(qemu.Config{
			StateDir: h.State(),
			Kernel:   func(ctx context.Context) (string, error) { return k.Dir(ctx, "", nil) },
			Log:      log,
		}), nil
	case agentbox.GVisor:
		return gvisor.New(gvisor.Config{StateDir: h.State(), Agent: runsc.Agent{Digest: guest.AgentDigest, Bytes: guest.Agent}, Log: log}), nil
	case agentbox.Lima:
		return nil, agentbox.Errorf(agentbox.Invalid, "this build has no %s isolation", kind).WithHint("isolation: microvm works everywhere QEMU does")
	}
	return nil, agentbox.Errorf(agentbox.Invalid, "%q is not a kind of isolation", kind).WithHint("use auto, microvm, gvisor or lima")
}
