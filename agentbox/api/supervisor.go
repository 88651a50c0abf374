package api

import (
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/cost"
	"agentbox/policy"
	"agentbox/policy/secrets"
	"agentbox/vmm/guest/protocol"
)

// The calls that a supervisor answers on its own socket. Only the daemon makes them.
var (
	// SupervisorStart lets the machine become ready, and returns when it answers. It is idempotent.
	SupervisorStart = Endpoint[StartRequest, SupervisorStatus]{"/v1/start"}
	// SupervisorConfigure turns the machine into a box.
	SupervisorConfigure = Endpoint[GuestConfig, None]{"/v1/configure"}
	// SupervisorShow waits for the machine to start. A silent guest only leaves its part out.
	SupervisorShow = Endpoint[StatusRequest, SupervisorStatus]{"/v1/status"}
	// SupervisorWait returns when the machine has ended.
	SupervisorWait = Endpoint[None, None]{"/v1/wait"}
	// SupervisorHold prepares a machine for the pool, and stops its CPUs until SupervisorConfigure.
	SupervisorHold = Endpoint[None, None]{"/v1/hold"}
	// SupervisorPause saves the machine, and then ends it and the supervisor.
	SupervisorPause = Endpoint[SaveRequest, None]{"/v1/pause"}
	// SupervisorSave saves the machine with its disks. It stands still meanwhile, and then goes on.
	SupervisorSave = Endpoint[SaveRequest, None]{"/v1/save"}
	// SupervisorStop also ends a machine that has not started yet.
	SupervisorStop = Endpoint[StopRequest, None]{"/v1/stop"}
	// SupervisorLease renews the lease.
	SupervisorLease = Endpoint[LeaseRequest, None]{"/v1/lease"}
	// SupervisorPorts forwards the configured ports.
	SupervisorPorts = Endpoint[[]agentbox.ConfiguredPort, None]{"/v1/port/configured"}
	// SupervisorOpen forwards one more port.
	SupervisorOpen = Endpoint[PortRequest, agentbox.Port]{"/v1/port/open"}
	// SupervisorClose ends a forwarding.
	SupervisorClose = Endpoint[PortRequest, None]{"/v1/port/close"}
	// SupervisorPolicy replaces the policy.
	SupervisorPolicy = Endpoint[PolicyInForce, None]{"/v1/policy"}
	// SupervisorAccount updates the consumption of a task's box and its service logs, in the box's
	// directory.
	SupervisorAccount = Endpoint[None, None]{"/v1/account"}
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
// and ports. The policy must already be in force (SupervisorPolicy), because services start with
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

// SupervisorStatus is what a supervisor knows about its machine.
type SupervisorStatus struct {
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
