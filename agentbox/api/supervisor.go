package api

import (
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/cost"
	"agentbox/policy"
	"agentbox/policy/secrets"
	"agentbox/vmm/guest/protocol"
)

// The calls a supervisor answers on its own socket. Only the daemon makes them.
var (
	SupervisorStart   = Endpoint[StartRequest, SupervisorStatus]{"/v1/start"}
	SupervisorAttach  = Endpoint[AttachRequest, None]{"/v1/attach"}
	SupervisorStatusE = Endpoint[StatusRequest, SupervisorStatus]{"/v1/status"}
	SupervisorWait    = Endpoint[None, None]{"/v1/wait"}
	SupervisorHold    = Endpoint[None, None]{"/v1/hold"}
	SupervisorPause   = Endpoint[SaveRequest, None]{"/v1/pause"}
	SupervisorSave    = Endpoint[SaveRequest, None]{"/v1/save"}
	SupervisorStop    = Endpoint[StopRequest, None]{"/v1/stop"}
	SupervisorLease   = Endpoint[LeaseRequest, None]{"/v1/lease"}
	SupervisorPorts   = Endpoint[[]agentbox.ConfiguredPort, None]{"/v1/port/configured"}
	SupervisorOpen    = Endpoint[PortRequest, agentbox.Port]{"/v1/port/open"}
	SupervisorClose   = Endpoint[PortRequest, None]{"/v1/port/close"}
	SupervisorPolicy  = Endpoint[PolicyInForce, None]{"/v1/policy"}
	// It brings up to date, in the box's directory, the account of a task's box and the logs of its
	// services.
	SupervisorAccount = Endpoint[None, None]{"/v1/testify"}
)

// StatusRequest asks what runs. The guest is asked only for Guest: under emulation it takes its
// time. Without either, the answer comes from memory and at once.
type StatusRequest struct {
	Guest bool `json:"guest,omitempty"` // services, and processes killed for want of memory
	// Processes: those of the machine: finding them takes milliseconds.
	Processes bool `json:"processes,omitempty"`
}

// StartRequest lets a supervisor greet its guest, and returns when that answers. The supervisor
// starts the machine without being asked, so that the workspace can be made meanwhile, unless the
// state to restore is still being saved.
type StartRequest struct {
	// Attach: the workspace is complete, so the guest becomes the box while it is greeted, which
	// saves a call.
	Attach *AttachRequest `json:"attach,omitempty"`
}

// AttachRequest turns a restored machine into a box: it gets its workspace, environment, services
// and ports. Policy must be in force before (SupervisorPolicy): services start with it.
type AttachRequest struct {
	Hostname string                    `json:"hostname"`
	User     string                    `json:"user,omitempty"`
	Env      map[string]string         `json:"env,omitempty"`
	Services []protocol.Service        `json:"services,omitempty"`
	Ports    []agentbox.ConfiguredPort `json:"ports,omitempty"`
	Lease    time.Duration             `json:"lease"` // its term
	// Files are written into the box, text by absolute path.
	Files map[string]string `json:"files,omitempty"`
	// Roots is PEM: the authorities that this machine was taught beside its distribution's, for the
	// box to believe.
	Roots string `json:"roots,omitempty"`
}

// PolicyInForce replaces the policy of a running box. Until the first one comes, nothing leaves the
// box. Open connections that it no longer allows are ended. Values of secrets are not in it, but
// how to get them.
type PolicyInForce struct {
	Spec    policy.Spec               `json:"spec"`
	Secrets map[string]secrets.Source `json:"secrets,omitempty"` // by name
	// Env: variables that hold values; only ever in memory.
	Env    map[string]string `json:"env,omitempty"`
	Limits Limits            `json:"limits"`
}

// Limits bound a box from the start of its machine, or its resume, to the end; zero means no limit.
// They are counted by the supervisor, outside of the box.
type Limits struct {
	Wall time.Duration `json:"wall,omitempty"` // from when it became a box
	// Idle is time without output or network traffic; with Pause, without a client either.
	Idle time.Duration `json:"idle,omitempty"`
	CPU  time.Duration `json:"cpu,omitempty"` // CPU time of the machine
	// Pause: at these three the box is paused, and somebody may resume it; else they end its
	// machine.
	Pause       bool  `json:"pause,omitempty"`
	Connections int   `json:"connections,omitempty"` // open at once
	Bytes       int64 `json:"bytes,omitempty"`       // in and out together

	// These end a task's box, and no other: nobody comes back to it.
	Tokens int64       `json:"tokens,omitempty"` // of models, over all lives of the box
	Cost   float64     `json:"cost,omitempty"`   // by Rates, over all lives of the box
	Rates  *cost.Table `json:"rates,omitempty"`
}

// SupervisorStatus is what a supervisor knows of its machine.
type SupervisorStatus struct {
	PID int `json:"pid"`
	// Machine has the process ids of the machine, where StatusRequest.Processes asked for them.
	Machine []int `json:"machine"`
	Life    int   `json:"life"` // the box's life this machine is
	// Attached: it has the workspace, now or since before it was saved.
	Attached  bool               `json:"attached"`
	Services  []agentbox.Service `json:"services,omitempty"`
	Ports     []agentbox.Port    `json:"ports,omitempty"`
	OOMKills  int                `json:"oom_kills,omitempty"`
	ForkBombs int                `json:"fork_bombs,omitempty"`
	Kernel    string             `json:"kernel,omitempty"`
	Lease     LeaseStatus        `json:"lease"`
	// NoCard: the machine has no network card.
	NoCard bool `json:"no_card,omitempty"`
	// Unlogged: its audit log could not be written, so nothing leaves the box any more.
	Unlogged bool `json:"unlogged,omitempty"`
}

// SaveRequest writes the machine's state to a directory that does not exist yet. A pause ends the
// supervisor; a save lets the machine go on, and copies its disks too.
type SaveRequest struct {
	Dir string `json:"dir"`
	// Fork, of a save: the state is restored at once and only once (vmm.Passing), so it need not be
	// durable.
	Fork bool `json:"fork,omitempty"`
}

// StopRequest ends the machine: politely within the grace period, then as power loss does.
type StopRequest struct {
	Grace time.Duration `json:"grace"`
}

// LeaseRequest lets the lease begin anew. It ends when nobody has worked in the box for its term. A
// supervisor with another term takes this one.
type LeaseRequest struct {
	Term time.Duration `json:"term"`
}

// LeaseStatus is how a lease stands. Times are of this host's monotonic clock, so durations: no two
// clocks are compared.
type LeaseStatus struct {
	// Left is the time until it ends if nobody comes; the whole term while somebody works in the
	// box.
	Left time.Duration `json:"left"`
	Term time.Duration `json:"term"`
	// Working counts the open sessions, jobs and forwarded connections.
	Working int `json:"working,omitempty"`
	// Unpaused is why the box could not be paused when the lease ended, which is tried again; else
	// "".
	Unpaused string `json:"unpaused,omitempty"`
}
