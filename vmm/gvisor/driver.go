package gvisor

import (
	"log/slog"
	"path/filepath"
	"sync/atomic"

	"agentbox/vmm"
	"agentbox/vmm/gvisor/runsc"
	"agentbox/vmm/hostdir"
)

// Config configures a driver. It does not change after New.
type Config struct {
	StateDir string       // an existing directory for unpacked programs; processes may share it
	Agent    runsc.Agent  // the guest agent, the guest's first program
	Log      *slog.Logger // gets what no error can report; may be nil
}

// Driver implements vmm.Driver, vmm.Mover, vmm.Reclaimer and vmm.DirectoryWorkspaces.
type Driver struct {
	hostdir.Workspaces
	config   Config
	programs *runsc.Unpacker
	tried    atomic.Bool // Probe has made namespaces
}

var (
	_ vmm.Driver              = (*Driver)(nil)
	_ vmm.Mover               = (*Driver)(nil)
	_ vmm.DirectoryWorkspaces = (*Driver)(nil)
	_ vmm.Reclaimer           = (*Driver)(nil)
)

// New makes a driver. It touches nothing; Probe tells whether machines can run here.
func New(config Config) *Driver {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	return &Driver{config: config, programs: runsc.New(filepath.Join(config.StateDir, programsDir), config.Agent)}
}
