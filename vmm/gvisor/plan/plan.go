// Package plan has the messages between the driver (vmm/gvisor) and the launcher of a gVisor
// machine (vmm/gvisor/launch), over a socket that the launcher inherits. It sends and receives
// nothing, and imports nothing, to keep the launcher small.
//
// The launcher is embedded in agentbox, so the messages have no version. The launcher trusts its
// plan. The driver checks only whether an answer is complete, since the launcher runs no code of a
// guest.
package plan

// The descriptors that the launcher inherits.
const (
	FDControl = 3 + iota // a stream socket: the Plan as one line of JSON, then Events as lines of JSON the other way
	FDInput              // standard input of the guest's first process
	FDOutput             // its standard output
	FDConsole            // its standard error
	FDFirst              // the first of Plan.Files
)

// MTU is the most bytes of a packet on the cable. The buffers of the packet sockets, which an
// ordinary user cannot enlarge, would hold only a handful of larger frames.
const MTU = 16 << 10

// Plan tells the launcher what to start. It is sent when the ids of its user namespace are mapped.
type Plan struct {
	Root  string   `json:"root"`           // an empty directory of the host, on which the machine's own root is mounted
	Binds []Bind   `json:"binds"`          // everything in that root but /proc
	Argv  []string `json:"argv"`           // the command that starts the sandbox and ends; paths are in that root
	Env   []string `json:"env"`            // of the command
	Pid   string   `json:"pid"`            // the file into which the command writes the sandbox's process id
	Dial  string   `json:"dial"`           // the sandbox's control socket
	CPUs  []int    `json:"cpus,omitempty"` // on which everything runs; empty means all
	Files int      `json:"files"`          // how many descriptors from FDFirst on the command inherits

	// Image is the path of a file whose bytes the driver serves, see Event.Image; "" for none.
	Image string `json:"image,omitempty"`

	// Adopt, if it is not "", is a directory of the host. The launcher then only gives everything
	// in it to User, an id in the namespace, and answers Started without a connection, or Failed.
	Adopt string `json:"adopt,omitempty"`
	User  int    `json:"user,omitempty"`
}

// Bind mounts a file or directory of the host, without the mounts below it.
type Bind struct {
	Source   string `json:"source"` // absolute path on the host
	Target   string `json:"target"` // absolute path in the machine's own root; missing directories are made
	Dir      bool   `json:"dir"`    // Source is a directory
	Writable bool   `json:"writable"`
	Device   bool   `json:"device,omitempty"` // Source is a device, which can be used
}

// Event is a message of the launcher.
type Event struct {
	Started bool   `json:"started,omitempty"` // the sandbox runs; with a connection to Plan.Dial, and the cable if NoNetworkCard is ""
	NoCard  string `json:"no_card,omitempty"` // why the machine has no network interface
	Image   bool   `json:"image,omitempty"`   // Plan.Image is mounted; with the descriptor to serve it, before Started
	Failed  string `json:"failed,omitempty"`  // why the sandbox could not be started; the launcher ends
	Ended   *End   `json:"ended,omitempty"`   // the sandbox has ended; the launcher ends
}

// End is how the sandbox's process ended.
type End struct {
	Status int  `json:"status"`           // exit status
	Signal int  `json:"signal"`           // 0 unless a signal ended it
	Orphan bool `json:"orphan,omitempty"` // its file server ended first
}
