package place

import (
	"time"

	"agentbox/agentbox"
)

// Question asks what goes on in a place. Guest and Processes cost extra time; without either, the answer
// comes from memory at once.
type Question struct {
	Guest bool `json:"guest,omitempty"` // services, out-of-memory kills; slow under emulation
	// Processes asks for the machine's process IDs. Finding them takes milliseconds.
	Processes bool `json:"processes,omitempty"`
}

// Status is what is known of a place.
type Status struct {
	PID int `json:"pid"`
	// Machine has the process IDs of the machine, if Question.Processes asked for them.
	Machine []int `json:"machine"`
	Life    int   `json:"life"` // the life of the box that this machine is
	// Configured means that the machine has its workspace, perhaps since before it was saved.
	Configured bool               `json:"configured"`
	Frozen     bool               `json:"frozen,omitempty"` // by a Freezer
	Services   []agentbox.Service `json:"services,omitempty"`
	Ports      []agentbox.Port    `json:"ports,omitempty"`
	OOMKills   int                `json:"oom_kills,omitempty"`
	ForkBombs  int                `json:"fork_bombs,omitempty"`
	Kernel     string             `json:"kernel,omitempty"`
	Lease      Lease              `json:"lease"`
	// NoNetworkCard means that the machine has no network card.
	NoNetworkCard bool `json:"no_network_card,omitempty"`
	// AuditLogFailed means that the audit log could not be written, so nothing leaves the box any
	// more.
	AuditLogFailed bool `json:"audit_log_failed,omitempty"`
}

// Lease is the state of a lease. It uses durations of this host's monotonic clock, so that no
// two clocks are compared.
type Lease struct {
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
