// Package plan is what the driver (vmm/gvisor) tells the launcher of a gVisor machine
// (vmm/gvisor/launch), and what it hears back, over one socket that the launcher inherits. It does
// neither's work, and imports nothing, for the launcher links it.
//
// Both ends are of one build: the launcher is embedded in agentbox. So there is no version in what
// they say. The launcher trusts its plan; the driver checks what comes back only as far as it could
// be cut short, since the launcher runs nothing of a guest's.
package plan

// The descriptors the launcher inherits.
const (
	FDControl = 3 + iota // a stream socket: the Plan as one line of JSON, then Events as lines of JSON the other way
	FDInput              // what becomes standard input of the guest's first process
	FDOutput             // and standard output
	FDConsole            // and standard error
	FDFirst              // where Plan.Files begin
)

// MTU is the most bytes of a packet on the cable. Both ends are packet sockets, whose buffers an
// ordinary user cannot make larger than the host says: frames of the most that is possible would
// fill them with a handful.
const MTU = 16 << 10

// Plan is one machine, from the launcher's point of view. It is sent when the launcher's user
// namespace has its ids.
type Plan struct {
	Root  string   `json:"root"`           // an empty directory of the host on which the machine's own root is put together
	Binds []Bind   `json:"binds"`          // all that is in that root, besides /proc
	Argv  []string `json:"argv"`           // starts the sandbox and ends; paths are those of the machine's own root
	Env   []string `json:"env"`            // of Argv
	Pid   string   `json:"pid"`            // the file into which that writes the sandbox's process id
	Dial  string   `json:"dial"`           // the sandbox's control socket
	CPUs  []int    `json:"cpus,omitempty"` // where everything runs; empty means anywhere
	Files int      `json:"files"`          // descriptors from FDFirst on that Argv inherits at the same numbers

	// Image, when it is not "", is the target of a file whose bytes the other side serves: see
	// Event.Image.
	Image string `json:"image,omitempty"`

	// Adopt, when it is not "", makes the launcher do one thing only: give everything in this
	// directory of the host to the box's user. It answers Started without a connection, or Failed.
	Adopt string `json:"adopt,omitempty"`
	User  int    `json:"user,omitempty"` // that user, inside
}

// Bind shows a file or directory of the host in the machine's root.
type Bind struct {
	// Absolute path of the host.
	Source string `json:"source"`
	// Absolute path in the machine's own root; directories on the way are made.
	Target string `json:"target"`
	// Source is a directory, without what is mounted below it.
	Dir      bool `json:"dir"`
	Writable bool `json:"writable"`
	Device   bool `json:"device,omitempty"` // a device node, which works
}

// Event is one thing that happened.
type Event struct {
	Started bool   `json:"started,omitempty"` // the sandbox runs; a connection to Plan.Dial comes with the line, and the cable unless NoCard says why not
	NoCard  string `json:"no_card,omitempty"` // why the machine has no network card
	Image   bool   `json:"image,omitempty"`   // Plan.Image is mounted; the descriptor that serves it comes with the line, before Started
	Failed  string `json:"failed,omitempty"`  // it does not, and the launcher ends
	Ended   *End   `json:"ended,omitempty"`   // it did, and the launcher ends
}

// End is how the sandbox's process ended.
type End struct {
	Status int  `json:"status"`           // exit status
	Signal int  `json:"signal"`           // 0 unless a signal ended it
	Orphan bool `json:"orphan,omitempty"` // its file server had ended before it
}
