package agentbox

import (
	"agentbox/vmm/guest/protocol"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"
)

// BoxID names a box on this machine for as long as it exists, and is never used twice. It is
// random. Its text, twelve lower-case hex digits, is also the name of the box's directories.
type BoxID [6]byte

// NewBoxID draws an id.
func NewBoxID() BoxID {
	var id BoxID
	rand.Read(id[:]) // never fails since Go 1.24
	return id
}

// ParseBoxID reads what String wrote: twelve hex digits, and no abbreviation of them. A prefix is
// resolved by the daemon, which alone knows the boxes that exist.
func ParseBoxID(s string) (BoxID, error) {
	var id BoxID
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("%q is not a box id (12 hex digits)", s)
	}
	return BoxID(b), nil
}

func (id BoxID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText makes an id a JSON string.
func (id BoxID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (id *BoxID) UnmarshalText(b []byte) error {
	v, err := ParseBoxID(string(b))
	if err == nil {
		*id = v
	}
	return err
}

// State is what a box is doing. It is derived from facts (a live supervisor, a complete saved
// machine), so no crash leaves a wrong one behind. The exception is Waiting, when the box stands
// still for a block of its image: the daemon knows that from the calls it has not answered yet.
type State string

const (
	Creating State = "creating" // an operation is under way
	Running  State = "running"  // its machine runs
	Waiting  State = "waiting"  // its machine runs, and stands still until bytes of its image come
	Paused   State = "paused"   // its machine is saved on disk and holds no memory
	Stopped  State = "stopped"  // it has no machine; the workspace is there, the runtime is gone
)

// Isolation is what runs a box.
type Isolation string

// The kinds of isolation. Auto is a request, never an answer.
const (
	Auto    Isolation = "auto"
	MicroVM Isolation = "microvm"
	GVisor  Isolation = "gvisor"
	Lima    Isolation = "lima"
)

// Lifetime says what a workspace belongs to, and so when it goes. It decides which box "up" finds
// again, so it is part of the key that the host computes from a checkout.
type Lifetime string

const (
	LifetimeTask      Lifetime = "task"      // one run; removed with its box
	LifetimeBranch    Lifetime = "branch"    // one branch of one checkout (the default)
	LifetimeProject   Lifetime = "project"   // one checkout, whatever the branch
	LifetimeDeveloper Lifetime = "developer" // this user on this machine, whatever the checkout
)

// Lease is the expiring right to a running machine. It ends when nobody has worked in the box for
// its term; then the box is paused. Its supervisor keeps it, by a clock that stands still while the
// host sleeps.
type Lease struct {
	Owner string        `json:"owner"`
	Term  time.Duration `json:"term"` // nanoseconds
	// Working counts the sessions, jobs and forwarded connections that are open; while there are
	// any the lease does not end.
	Working int `json:"working,omitempty"`
	// Expires is when the lease ends by the clock of this host, which is computed for each answer
	// from the time that is left; absent while somebody works in the box and when it does not run.
	Expires time.Time `json:"expires,omitzero"`
}

// Box is what a user creates, sees and removes: one machine, a workspace and a lease. The record of
// a box stores one of these; State, Lease.Working, Lease.Expires, Ports, Services, Usage and
// Problems are found out for each answer and are never stored.
type Box struct {
	ID        BoxID     `json:"id"`
	Name      string    `json:"name"`
	State     State     `json:"state"`
	Isolation Isolation `json:"isolation"`
	Accel     string    `json:"accel,omitempty"`   // kvm, hvf or tcg, for a microvm
	Reason    string    `json:"reason,omitempty"`  // why this isolation, in one line
	Project   string    `json:"project,omitempty"` // its canonical name
	// Directory is the absolute path of the root of the checkout that the box was made from; "" for
	// a box of no repository. Branch and Commit are what was checked out there then; in a detached
	// checkout Branch is the commit.
	Directory string   `json:"directory,omitempty"`
	Branch    string   `json:"branch,omitempty"`
	Commit    string   `json:"commit,omitempty"`
	Lifetime  Lifetime `json:"lifetime"`
	Image     Digest   `json:"image"`
	ImageName string   `json:"image_name"`
	Template  string   `json:"template,omitempty"`
	// Cache is the key of the setup result that the box started from; zero when setup ran, or will
	// run, in the box itself.
	Cache      Digest       `json:"cache,omitzero"`
	CPUs       int          `json:"cpus"`
	Memory     int64        `json:"memory"` // bytes
	Disk       int64        `json:"disk"`   // bytes
	Created    time.Time    `json:"created"`
	Lease      Lease        `json:"lease"`
	Parent     *BoxID       `json:"parent,omitempty"` // the box this one was forked from
	Ports      []Port       `json:"ports,omitempty"`
	Services   []Service    `json:"services,omitempty"`
	Usage      *Usage       `json:"usage,omitempty"`
	Checkpoint []Checkpoint `json:"checkpoints,omitempty"`
	// Ended says why its last machine ended, where nobody asked for that; nil while one runs.
	Ended    *End      `json:"ended,omitempty"`
	Problems []Problem `json:"problems,omitempty"` // what is wrong with it now, the worst first
}

// Port is one forwarded TCP port. The host's end is on the loopback interface: nobody else on the
// network reaches a box.
type Port struct {
	Box  int    `json:"box"`
	Host string `json:"host"` // address on the host, as 127.0.0.1:3000
}

// ConfiguredPort is a TCP port of a box that is forwarded to the host's loopback when the box
// starts. Both numbers are 1 to 65535. When Host is taken, another one of the host's serves: a box
// should not fail for it.
type ConfiguredPort struct {
	Box  int `json:"box"`
	Host int `json:"host"` // the port wanted on the host; the same as Box unless the file says otherwise
}

// Service is one service of the configuration, as it is now.
type Service = protocol.ServiceStatus

// Usage is what a box costs its host now.
type Usage struct {
	// PSS: bytes of memory, machine and supervisor, shared pages divided among their users.
	PSS       int64 `json:"pss"`
	Disk      int64 `json:"disk"`       // bytes allocated by the box's files
	CPUMillis int64 `json:"cpu_millis"` // CPU time used so far
}

// Checkpoint is a saved state of a box that it can be rolled back to.
type Checkpoint struct {
	ID      string    `json:"id"`
	Name    string    `json:"name,omitempty"`
	Created time.Time `json:"created"`
	Bytes   int64     `json:"bytes"`
	// Template is the key of the template that its machine was restored from, which the checkpoint
	// needs; "" after a cold boot.
	Template string `json:"template,omitempty"`
}
