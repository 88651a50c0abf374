package control

import (
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/place"
)

// The calls that a supervisor answers on its own socket. Only the daemon makes them.
var (
	// Start lets the machine become ready, and returns when it answers. It is idempotent.
	Start = api.Endpoint[StartRequest, Status]{Path: "/v1/start"}
	// Configure turns the machine into a box.
	Configure = api.Endpoint[place.Identity, api.None]{Path: "/v1/configure"}
	// Show waits for the machine to start. A silent guest only leaves its part out.
	Show = api.Endpoint[place.Question, Status]{Path: "/v1/status"}
	// Wait returns when the machine has ended.
	Wait = api.Endpoint[api.None, api.None]{Path: "/v1/wait"}
	// Park prepares a machine for the pool, and stops its CPUs until Configure.
	Park = api.Endpoint[api.None, api.None]{Path: "/v1/hold"}
	// Pause saves the machine, and then ends it and the supervisor.
	Pause = api.Endpoint[SaveRequest, api.None]{Path: "/v1/pause"}
	// Save saves the machine with its disks. It stands still meanwhile, and then goes on.
	Save = api.Endpoint[SaveRequest, api.None]{Path: "/v1/save"}
	// Freeze stops the machine in memory, or lets it go on.
	Freeze = api.Endpoint[FreezeRequest, api.None]{Path: "/v1/freeze"}
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
	Policy = api.Endpoint[place.Policy, api.None]{Path: "/v1/policy"}
	// Limits replaces the limits. A supervisor of a build up to 97f72a2d has them from its policy.
	Limits = api.Endpoint[place.Limits, api.None]{Path: "/v1/limits"}
	// Account updates the consumption of a task's box and its service logs, in the box's
	// directory.
	Account = api.Endpoint[api.None, api.None]{Path: "/v1/account"}
	// StartJob is api.StartJob, in the box of this supervisor.
	StartJob = api.Endpoint[agentbox.JobSpec, api.JobStarted]{Path: "/v1/job/start"}
	// WaitJob returns when a job has ended or does not run. A supervisor of a build up to 0e3ba6c8
	// does not know it.
	WaitJob = api.Endpoint[agentbox.JobID, api.None]{Path: "/v1/job/wait"}
	// SignalJob is api.SignalJob, in the box of this supervisor.
	SignalJob = api.Endpoint[api.JobSignal, api.None]{Path: "/v1/job/signal"}
)

// StartRequest makes a supervisor connect to its guest, and returns when the guest answers. The
// supervisor starts the machine on its own, so that the workspace can be made meanwhile; it waits
// only if the state to restore is still being saved.
type StartRequest struct {
	// Guest, if set, turns the guest into the box in the same call. The workspace must be
	// complete.
	Guest *place.Identity `json:"guest,omitempty"`
}

// SaveRequest writes the machine's state to a directory that must not exist yet. A pause then ends
// the supervisor. A save lets the machine go on, and also copies its disks.
type SaveRequest struct {
	Dir string `json:"dir"`
	// Fork is for a save whose state is restored at once and only once (vmm.Transient), so that it
	// need not be durable.
	Fork bool `json:"fork,omitempty"`
}

// FreezeRequest says whether the machine is to stand still.
type FreezeRequest struct {
	Frozen bool `json:"frozen"`
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

// Status is place.Status as a supervisor answers it.
type Status struct{ place.Status }
