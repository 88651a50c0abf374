package place

import (
	"strconv"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/resources"
)

// Spec describes a life of a box. A kind ignores what does not concern it.
type Spec struct {
	ID   agentbox.BoxID
	Name string // of the box, for messages; "" for a place that waits in the pool
	Note string // how the box is isolated, for its audit log
	// Life and Workspace number the present life and workspace. Numbers are not used again.
	Life, Workspace int
	Kind            agentbox.Isolation

	Image  agentbox.Digest // of its file system
	File   string          // with the image
	Kernel string          // directory of a guest kernel
	CPUs   int
	GPUs   int   // of the host; agentbox.AllGPUs for all
	Memory int64 // bytes
	Disk   int64 // bytes that the workspace and the rest may each grow to
	// Key stands for everything that a saved state depends on; "" for a place that boots.
	Key   string
	From  From
	Lease time.Duration // how long the place goes on when nobody works in it

	// Yield is how far the place gives way to what this machine's owner runs.
	Yield resources.Yield

	Account string // of a machine, where the box is one: as ssh(1) takes it
}

// From is what a life begins with. The zero From is a fresh place.
type From struct {
	// Paused: what Pause kept.
	Paused bool
	// Forked: what Fork of another place saves for this box. It may still be written: Start is
	// called when it is complete.
	Forked bool
	// Checkpoint: a checkpoint of this box. The workspace is restored from it too.
	Checkpoint string
}

// Restores tells whether a life begins with something that was saved.
func (f From) Restores() bool { return f != From{} }

// Hostname is the host name in the place.
func (s Spec) Hostname() string {
	if s.Name != "" {
		return s.Name
	}
	return "agentbox"
}

// LifeName and WorkspaceName are unique among the lives and workspaces of a box.
func (s Spec) LifeName() string      { return "life-" + strconv.Itoa(s.Life) }
func (s Spec) WorkspaceName() string { return "workspace-" + strconv.Itoa(s.Workspace) }
