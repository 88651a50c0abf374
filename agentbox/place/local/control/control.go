package control

import (
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/cost"
	"agentbox/policy"
	"agentbox/policy/secrets"
	"agentbox/vmm/guest/protocol"
)

// The calls that a supervisor answers on its own socket. Only the daemon makes them.
var (
	// Start lets the machine become ready, and returns when it answers. It is idempotent.
	Start = api.Endpoint[StartRequest, Status]{Path: "/v1/start"}
	// Configure turns the machine into a box.
	Configure = api.Endpoint[GuestConfig, api.None]{Path: "/v1/configure"}
	// Show waits for the machine to start. A silent guest only leaves its part out.
	Show = api.Endpoint[StatusRequest, Status]{Path: "/v1/status"}
	// Wait returns when the machine has ended.
	Wait = api.Endpoint[api.None, api.None]{Path: "/v1/wait"}
	// Hold prepares a machine for the pool, and stops its CPUs until Configure.
	Hold = api.Endpoint[api.None, api.None]{Path: "/v1/hold"}
	// Pause saves the machine, and then ends it and the supervisor.
	Pause = api.Endpoint[SaveRequest, api.None]{Path: "/v1/pause"}
	// Save saves the machine with its disks. It stands still meanwhile, and then goes on.
	Save = api.Endpoint[SaveRequest, api.None]{Path: "/v1/save"}
	// Stop also ends a machine that has not started yet.
	Stop = api.Endpoint[StopRequest, api.None]{Path: "/v1/stop"}
	// Lease renews the lease.
	Lease = api.Endpoint[LeaseRequest, api.None]{Path: "/v1/lease"}
	// Ports forwards the configured ports.
	Ports = api.Endpoint[[]agentbox.ConfiguredPort, api.None]{Path: "/v1/port/configured"}
	// Open forwards one more port.
	Open = api.Endpoint[api.PortRequest, agentbox.Port]{Path: "/v1/port/open"}
	// Close ends a forwarding.
	Close = api.Endpoint[api.PortRequest, api.None]{Path: "/v1/port/close"}
	// Policy replaces the policy.
	Policy = api.Endpoint[PolicyInForce, api.None]{Path: "/v1/policy"}
	// Account updates the consumption of a task's box and its service logs, in the box's
	// directory.
	Account = api.Endpoint[api.None, api.None]{Path: "/v1/account"}
	// StartJob is api.StartJob, in the box of this supervisor.
	StartJob = api.Endpoint[api.JobSpec, api.JobStarted]{Path: "/v1/job/start"}
	// SignalJob is api.SignalJob, in the box of this supervisor.
	SignalJob = api.Endpoint[api.JobSignal, api.None]{Path: "/v1/job/signal"}
)

// StatusRequest asks what runs. Guest and Processes cost extra time; without either, the answer
// comes from memory at once.
type StatusRequest struct {
	Guest bool `json:"guest,omitempty"` // services, out-of-memory kills; slow under emulation
	// Processes asks for the machine's process IDs. Finding them takes milliseconds.
	Processes bool `json:"processes,omitempty"`
}

// StartRequest makes a supervisor connect to its guest, and returns when the guest answers. The
// supervisor starts the machine on its own, so that the workspace can be made meanwhile; it waits
// only if the state to restore is still being saved.
type StartRequest struct {
	// Guest, if set, turns the guest into the box in the same call. The workspace must be
	// complete.
	Guest *GuestConfig `json:"guest,omitempty"`
}

// GuestConfig turns a restored machine into a box: it gets its workspace, environment, services
// and ports. The policy must already be in force (Policy), because services start with
// this call.
type GuestConfig struct {
	Hostname string                    `json:"hostname"`
	User     string                    `json:"user,omitempty"`
	Env      map[string]string         `json:"env,omitempty"`
	Services []protocol.Service        `json:"services,omitempty"`
	Ports    []agentbox.ConfiguredPort `json:"ports,omitempty"`
	Lease    time.Duration             `json:"lease"` // its term
	// Files are written into the box: text by absolute path.
	Files map[string]string `json:"files,omitempty"`
	// Roots are PEM certificates of the authorities that this machine trusts in addition to its
	// distribution's. The box will trust them too.
	Roots string `json:"roots,omitempty"`
}

// PolicyInForce replaces the policy of a running box. Until the first one arrives, nothing leaves
// the box. Open connections that it no longer allows are closed. It contains where to read the
// values of secrets, but not the values.
type PolicyInForce struct {
	Spec    policy.Spec               `json:"spec"`
	Secrets map[string]secrets.Source `json:"secrets,omitempty"` // by name
	// Env has variables that hold values. They are kept only in memory.
	Env    map[string]string `json:"env,omitempty"`
	Limits Limits            `json:"limits"`
}

// Limits bound a box from the start or resume of its machine to the end. Zero means no limit. The
// supervisor measures them, outside the box.
type Limits struct {
	Wall time.Duration `json:"wall,omitempty"` // from when the machine became the box
	// Idle is time without output or network traffic; with Pause, also without a client.
	Idle time.Duration `json:"idle,omitempty"`
	CPU  time.Duration `json:"cpu,omitempty"` // CPU time of the machine
	// Pause means that at these three limits the box is paused and can be resumed. Otherwise its
	// machine ends.
	Pause       bool  `json:"pause,omitempty"`
	Connections int   `json:"connections,omitempty"` // open at once
	Bytes       int64 `json:"bytes,omitempty"`       // in and out together

	// These two apply only to a task's box and end it, because nobody comes back to it.
	Tokens int64       `json:"tokens,omitempty"` // of models, over all lives of the box
	Cost   float64     `json:"cost,omitempty"`   // by Rates, over all lives of the box
	Rates  *cost.Table `json:"rates,omitempty"`
}

// Status is what a supervisor knows about its machine.
type Status struct {
	PID int `json:"pid"`
	// Machine has the process IDs of the machine, if StatusRequest.Processes asked for them.
	Machine []int `json:"machine"`
	Life    int   `json:"life"` // the life of the box that this machine is
	// Configured means that the machine has its workspace, perhaps since before it was saved.
	Configured bool               `json:"configured"`
	Services   []agentbox.Service `json:"services,omitempty"`
	Ports      []agentbox.Port    `json:"ports,omitempty"`
	OOMKills   int                `json:"oom_kills,omitempty"`
	ForkBombs  int                `json:"fork_bombs,omitempty"`
	Kernel     string             `json:"kernel,omitempty"`
	Lease      LeaseStatus        `json:"lease"`
	// NoNetworkCard means that the machine has no network card.
	NoNetworkCard bool `json:"no_network_card,omitempty"`
	// AuditLogFailed means that the audit log could not be written, so nothing leaves the box any
	// more.
	AuditLogFailed bool `json:"audit_log_failed,omitempty"`
}

// SaveRequest writes the machine's state to a directory that must not exist yet. A pause then ends
// the supervisor. A save lets the machine go on, and also copies its disks.
type SaveRequest struct {
	Dir string `json:"dir"`
	// Fork is for a save whose state is restored at once and only once (vmm.Transient), so that it
	// need not be durable.
	Fork bool `json:"fork,omitempty"`
}

// StopRequest ends the machine: by a shutdown within the grace period, after that like a power
// loss.
type StopRequest struct {
	Grace time.Duration `json:"grace"`
}

// LeaseRequest renews the lease, which expires when nobody has worked in the box for its term. A
// supervisor that has another term adopts this one.
type LeaseRequest struct {
	Term time.Duration `json:"term"`
}

// LeaseStatus is the state of a lease. It uses durations of this host's monotonic clock, so that no
// two clocks are compared.
type LeaseStatus struct {
	// Left is the time until the lease expires without activity. It is the whole term while
	// somebody works in the box.
	Left time.Duration `json:"left"`
	Term time.Duration `json:"term"`
	// Holders counts the open sessions, jobs and forwarded connections.
	Holders int `json:"holders,omitempty"`
	// PauseError is why the box could not be paused when the lease expired, or "". The supervisor
	// retries.
	PauseError string `json:"pause_error,omitempty"`
}
