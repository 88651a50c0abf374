// Package drivers knows every kind of machine and opens its driver for a home. Everything
// else knows vmm.Driver and agentbox.Kinds.
//
// The daemon keeps an open driver for each kind, and each supervisor opens its own. Kernels is what
// a microVM boots. It is here because a kernel is found, fetched and verified for a home, with this
// build's guest agent in it; the driver only learns where it is.
//
// A new kind is a package below vmm that passes tools/suites/vmmtest, and a case in Open
// with its row in agentbox.Kinds.
package drivers

import (
	"cmp"
	"context"
	"log/slog"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/vmm"
	"agentbox/vmm/container"
	"agentbox/vmm/guest"
	"agentbox/vmm/gvisor"
	"agentbox/vmm/gvisor/runsc"
	"agentbox/vmm/qemu"
)

// Open returns the driver of a kind of isolation. Whether the kind works here is for the driver's
// own check. The error for an unknown kind has code Invalid.
func Open(kind agentbox.Isolation, h home.Home, log *slog.Logger) (vmm.Driver, error) {
	return NewKernels(h, log).Open(kind)
}

// Open is the function Open with these kernels, in their home.
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
	case agentbox.Container:
		return container.New(container.Config{StateDir: h.State(), Digest: guest.AgentDigest, Agent: guest.Agent, Log: log}), nil
	}
	return nil, cmp.Or(agentbox.CheckIsolation(kind), error(agentbox.Errorf(agentbox.Internal, "%s has no driver", kind)))
}
