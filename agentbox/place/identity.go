package place

import (
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/cost"
	"agentbox/policy"
	"agentbox/policy/secrets"
	"agentbox/vmm/guest/protocol"
)

// Identity turns a place into a box: it gets its workspace, environment, services and ports. The
// policy must be in force before, because services start at once.
type Identity struct {
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

// Policy is what a box may reach. Until the first one arrives, nothing leaves
// the box. Open connections that it no longer allows are closed. It contains where to read the
// values of secrets, but not the values.
type Policy struct {
	Spec    policy.Spec               `json:"spec"`
	Secrets map[string]secrets.Source `json:"secrets,omitempty"` // by name
	// Env has variables that hold values. They are kept only in memory.
	Env map[string]string `json:"env,omitempty"`
	// OldSupervisorLimits are read by a supervisor of a build up to 97f72a2d alone, which is no Limiter.
	OldSupervisorLimits Limits `json:"limits"`
}

// Limits bound a box from the start or resume of its place to the end. Zero means no limit. They are
// measured outside of the box.
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
