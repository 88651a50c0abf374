package agentbox

import (
	"agentbox/vmm/guest/protocol"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"
)

// BoxID identifies a box on this machine for as long as the box exists. It is random and never used
// twice. Its text form is twelve lower-case hex digits, which also name the box's directories.
type BoxID [6]byte

// NewBoxID returns a random ID.
func NewBoxID() BoxID {
	var id BoxID
	rand.Read(id[:]) // never fails since Go 1.24
	return id
}

// ParseBoxID parses the output of String: exactly twelve hex digits. It accepts no abbreviation,
// because only the daemon, which knows the existing boxes, can resolve a prefix.
func ParseBoxID(s string) (BoxID, error) {
	var id BoxID
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("%q is not a box id (12 hex digits)", s)
	}
	return BoxID(b), nil
}

// String returns twelve lower-case hex digits.
func (box BoxID) String() string { return hex.EncodeToString(box[:]) }

// MarshalText implements encoding.TextMarshaler, so that an ID is a string in JSON.
func (box BoxID) MarshalText() ([]byte, error) { return []byte(box.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (box *BoxID) UnmarshalText(b []byte) error {
	v, err := ParseBoxID(string(b))
	if err == nil {
		*box = v
	}
	return err
}

// State is what a box is doing. It is derived from facts (a live supervisor, a complete saved
// machine), so a crash cannot leave a wrong state behind. Waiting is the exception: the daemon
// infers it from the block requests that it has not answered yet.
type State string

const (
	Creating State = "creating" // an operation is in progress
	Running  State = "running"  // its machine runs
	Waiting  State = "waiting"  // its machine runs, but stalls until bytes of its image arrive
	Paused   State = "paused"   // its machine is saved on disk and uses no memory, or that of a container stands still in memory
	Stopped  State = "stopped"  // it has no machine; the workspace remains, the runtime is gone
)

// Lifetime says what a workspace belongs to, and thus when it is removed. It decides which box "up"
// finds again, so it is part of the key that the host computes from a checkout.
type Lifetime string

const (
	LifetimeTask      Lifetime = "task"      // one run; removed with its box
	LifetimeBranch    Lifetime = "branch"    // one branch of one checkout (the default)
	LifetimeProject   Lifetime = "project"   // one checkout, on any branch
	LifetimeDeveloper Lifetime = "developer" // this user on this machine, for any checkout
)

// Lease is the right to a running machine for a limited time. It expires when nobody has worked in
// the box for Term; the box is then paused. The box's supervisor holds it and measures it by a
// clock that stops while the host sleeps.
type Lease struct {
	Owner string        `json:"owner"`
	Term  time.Duration `json:"term"` // nanoseconds
	// Holders counts the open sessions, jobs and forwarded connections. The lease cannot expire
	// while there are any.
	Holders int `json:"holders,omitempty"`
	// Expires is when the lease expires by this host's clock, computed for each answer from the
	// time left. It is absent while somebody works in the box and when the box does not run.
	Expires time.Time `json:"expires,omitzero"`
}

// Box is what a user creates, sees and removes: one machine, a workspace and a lease. The record of
// a box on disk stores one of these. State, Lease.Holders, Lease.Expires, Ports, Services, Usage
// and Problems are computed for each answer and never stored.
type Box struct {
	ID        BoxID     `json:"id"`
	Name      string    `json:"name"`
	State     State     `json:"state"`
	Isolation Isolation `json:"isolation"`
	Accel     string    `json:"accel,omitempty"`   // kvm, hvf or tcg, for a microvm
	Reason    string    `json:"reason,omitempty"`  // why this isolation was chosen, in one line
	Project   string    `json:"project,omitempty"` // its canonical name
	// Directory is the absolute path of the root of the checkout that the box was made from, or ""
	// for a box without a repository. Branch and Commit are what was checked out there at that
	// time; in a detached checkout, Branch is the commit.
	Directory string `json:"directory,omitempty"`
	Branch    string `json:"branch,omitempty"`
	Commit    string `json:"commit,omitempty"`
	// Source is the source that the box was made from; zero for a checkout as it was then. Directory
	// says where the source is from, with Elsewhere on another machine.
	Source    Digest   `json:"source,omitzero"`
	Elsewhere bool     `json:"elsewhere,omitempty"`
	Lifetime  Lifetime `json:"lifetime"`
	Image     Digest   `json:"image"`
	ImageName string   `json:"image_name"`
	// Template is the key of the box's machine: what is saved of it fits machines of this key and no
	// others. Where its kind has templates, the machine was restored from the one of this key. "" is
	// a machine that was booted all the same, and cannot be saved.
	Template string `json:"template,omitempty"`
	// Cache is the key of the setup result that the box started from. It is zero if setup ran, or
	// will run, in the box itself.
	Cache      Digest       `json:"cache,omitzero"`
	CPUs       int          `json:"cpus"`
	GPUs       int          `json:"gpus,omitempty"` // of the host; AllGPUs for all
	Memory     int64        `json:"memory"`         // bytes
	Disk       int64        `json:"disk"`           // bytes
	Created    time.Time    `json:"created"`
	Lease      Lease        `json:"lease"`
	Parent     *BoxID       `json:"parent,omitempty"` // the box this one was forked from
	Ports      []Port       `json:"ports,omitempty"`
	Services   []Service    `json:"services,omitempty"`
	Usage      *Usage       `json:"usage,omitempty"`
	Checkpoint []Checkpoint `json:"checkpoints,omitempty"`
	// Labels are what programs wrote on the box, for themselves (api.Label).
	Labels map[string]string `json:"labels,omitempty"`
	// Ended says why the last machine ended, unless somebody asked for it. It is nil while a
	// machine runs.
	Ended    *End      `json:"ended,omitempty"`
	Problems []Problem `json:"problems,omitempty"` // what is wrong with the box now, worst first
}

// Port is one forwarded TCP port. Its host end is on the loopback interface, so other machines on
// the network cannot reach the box.
type Port struct {
	Box  int    `json:"box"`
	Host string `json:"host"` // address on the host, such as 127.0.0.1:3000
}

// ConfiguredPort is a TCP port of a box that is forwarded to the host's loopback when the box
// starts. Both numbers are 1 to 65535. If Host is taken, another port of the host is used, because
// a box should not fail for that.
type ConfiguredPort struct {
	Box  int `json:"box"`
	Host int `json:"host"` // preferred port on the host; same as Box unless configured otherwise
}

// Service is the current state of one configured service.
type Service = protocol.ServiceStatus

// Usage is what a box costs its host now.
type Usage struct {
	// PSS is the memory of the machine and its supervisor in bytes, with shared pages divided among
	// the processes that share them.
	PSS       int64 `json:"pss"`
	Disk      int64 `json:"disk"`       // bytes allocated by the box's files
	CPUMillis int64 `json:"cpu_millis"` // CPU time used so far
}

// Checkpoint is a saved state that a box can be rolled back to.
type Checkpoint struct {
	ID      string    `json:"id"`
	Name    string    `json:"name,omitempty"`
	Created time.Time `json:"created"`
	Bytes   int64     `json:"bytes"`
	// Template is the key of the machines that the checkpoint fits (Box.Template).
	Template string `json:"template,omitempty"`
}
