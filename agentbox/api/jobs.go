package api

import "agentbox/agentbox"

// The calls about jobs.
var (
	// StartJob wakes the box and starts a job in it.
	StartJob = Endpoint[JobStart, JobStarted]{"/v1/job/start"}
	// ListJobs returns running jobs, and ended ones until RemoveJob.
	ListJobs = Endpoint[JobList, []agentbox.Job]{"/v1/job/list"}
	// ShowJob returns one job.
	ShowJob = Endpoint[JobRef, agentbox.Job]{"/v1/job/show"}
	// JobLog returns what a job wrote, also after its end.
	JobLog = Download[JobLogRequest]{"/v1/job/log"}
	// SignalJob returns without waiting for the effect.
	SignalJob = Endpoint[JobSignal, None]{"/v1/job/signal"}
	// RemoveJob removes the record and transcript of a job that has ended.
	RemoveJob = Endpoint[JobRef, None]{"/v1/job/remove"}
)

// JobStart starts a job in a box, waking the box if necessary.
type JobStart struct {
	BoxRef
	Spec agentbox.JobSpec `json:"spec"`
}

// JobStarted is the job, unless the box refused to run it.
type JobStarted struct {
	ID      agentbox.JobID `json:"id"`
	Refused *JobRefusal    `json:"refused,omitempty"`
}

// JobRefusal is why a box could not run a command. The command is at fault, not the box.
type JobRefusal struct {
	Status int    `json:"status"` // 126 or 127, as in a shell
	Reason string `json:"reason"` // what the guest said
}

// JobList asks for the jobs of one box, or of all.
type JobList struct {
	BoxRef
	All bool `json:"all,omitempty"`
}

// JobRef names a job by its ID, or "" for the one that runs in the box.
type JobRef struct {
	BoxRef
	Job string `json:"job,omitempty"`
}

// JobLogRequest asks for the output of a job as text. With Follow it goes on until the job has
// ended.
type JobLogRequest struct {
	JobRef
	LogRequest
	// Cast asks for an asciicast instead, of what there is now.
	Cast bool `json:"cast,omitempty"`
}

// JobSignal sends a signal, named without SIG (such as TERM), to the processes of a job.
type JobSignal struct {
	BoxRef
	ID     agentbox.JobID `json:"id"`
	Signal string         `json:"signal"`
}
