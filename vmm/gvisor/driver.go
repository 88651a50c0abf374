package gvisor

import (
	"log/slog"
	"path/filepath"
	"sync/atomic"

	"agentbox/vmm"
	"agentbox/vmm/gvisor/runsc"
)

// Config is what a driver needs to know of its surroundings.
type Config struct {
	// The fields are set before New and never change. StateDir is an existing directory in which
	// the driver keeps the programs it unpacks. Processes may share it.
	StateDir string
	// Agent is the guest agent, which is unpacked beside runsc and shown to the guest as its first
	// program.
	Agent runsc.Agent
	// Log receives what no caller can be told by an error; nil drops it.
	Log *slog.Logger
}

// Driver implements vmm.Driver, vmm.Snapshotter, vmm.Reclaimer and vmm.DirectoryWorkspaces.
type Driver struct {
	config Config
	// Both may be used by any number of goroutines; there is no lock of the driver's own.
	programs *runsc.Unpacker
	tried    atomic.Bool // namespaces can be made here
}

var (
	_ vmm.Driver              = (*Driver)(nil)
	_ vmm.Snapshotter         = (*Driver)(nil)
	_ vmm.DirectoryWorkspaces = (*Driver)(nil)
	_ vmm.Reclaimer           = (*Driver)(nil)
)

// New makes a driver. It touches nothing: whether machines can run here is for Probe to say.
func New(config Config) *Driver {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	return &Driver{config: config, programs: runsc.New(filepath.Join(config.StateDir, programsDir), config.Agent)}
}
