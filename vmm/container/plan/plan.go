// Package plan has the messages between the driver (vmm/container) and the first process of a
// container (vmm/container/launch), over a socket that the launcher inherits. It sends and receives
// nothing, and imports nothing, to keep the launcher small.
//
// The launcher is a part of the guest agent's program, which agentbox embeds, so the messages have
// no version. The launcher trusts its plan, and runs no code of a box before it has carried it out.
package plan

// Mode is the argument that makes the guest agent's program a launcher, and AgentMode the one with
// which the launcher starts it again as the agent. The agent's second argument is Plan.Watch.
const (
	Mode      = "container"
	AgentMode = "container-agent"
)

// The descriptors that the launcher inherits. Standard error is the console.
const (
	FDControl = 3 + iota // a stream socket: the Plan as one line of JSON, then Events the other way
	FDStream             // a stream socket: standard input and output of the guest agent
	FDTar                // with Unpack: the image as a tar
)

// MTU is the most bytes of a packet on the cable. Longer TCP segments are sent as one frame.
const MTU = 16 << 10

// Plan tells the launcher what to do. It is sent when the ids of its user namespace are mapped.
type Plan struct {
	// The four directories of the host that a container has. If Given is set, the plan comes with a
	// detached mount of each, in this order, since root of the namespace may not open them by name.
	Image     string `json:"image"`     // the root file system, never written
	Agent     string `json:"agent"`     // has the guest agent's program and nothing else
	Runtime   string `json:"runtime"`   // has upper and work, for the overlay over the image
	Workspace string `json:"workspace"` // what the box has at /workspace
	Given     bool   `json:"given,omitempty"`

	Extra []Extra `json:"extra,omitempty"` // what it has besides, for GPUs

	CPUs   []int  `json:"cpus,omitempty"` // on which everything runs; empty means all
	Shared int64  `json:"shared"`         // bytes that each file system in memory may have
	Watch  int64  `json:"watch"`          // bytes of memory that the agent holds the box to; 0 if the host's kernel does
	Cgroup bool   `json:"cgroup"`         // the launcher is in a control group of its own, which the box may read
	Try    bool   `json:"try,omitempty"`  // only find out whether a container could start: end when the agent would
	Filter []byte `json:"filter"`         // the filter of system calls, as the kernel takes it: struct sock_filter

	// If one of these is set, the launcher does only that and answers Started. Adopt gives everything
	// in a directory to User, an id in the namespace. Unpack fills an empty directory with a tar,
	// Remove removes one.
	Adopt  string `json:"adopt,omitempty"`
	User   int    `json:"user,omitempty"`
	Unpack string `json:"unpack,omitempty"`
	Remove string `json:"remove,omitempty"`
}

// Extra is a device or file of the host that the box gets. A file is read-only.
type Extra struct {
	Source string `json:"source"` // an absolute path, which any user can open
	Target string `json:"target"` // in the box
	Dir    bool   `json:"dir,omitempty"`
	Device bool   `json:"device,omitempty"`
}

// Event is a message of the launcher. It is followed by the end of the stream, when the guest agent
// runs or the launcher has ended.
type Event struct {
	Started bool   `json:"started,omitempty"` // all is in place, and the agent comes next; with the cable's descriptor
	Failed  string `json:"failed,omitempty"`  // why not; the launcher ends
}
