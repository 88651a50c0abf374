package api

import "agentbox/agentbox"

// The calls about jobs.
var (
	// StartJob wakes the box and starts a job in it.
	StartJob = Endpoint[JobStart, JobStarted]{"/v1/job/start"}
	// ListJobs returns running jobs, and ended ones until RemoveJob.
	ListJobs = Endpoint[JobList, []agentbox.Job]{"/v1/job/list"}
	// ShowJob returns a job and the location of its files.
	ShowJob = Endpoint[JobRef, JobInfo]{"/v1/job/show"}
	// SignalJob returns without waiting for the effect.
	SignalJob = Endpoint[JobSignal, None]{"/v1/job/signal"}
	// RemoveJob removes the record and transcript of a job that has ended.
	RemoveJob = Endpoint[JobRef, None]{"/v1/job/remove"}
)

// JobStart starts a job in a box, waking the box if necessary.
type JobStart struct {
	BoxRef
	Spec JobSpec `json:"spec"`
}

// JobSpec is what a job runs. A second start with the same ID starts nothing, so a client can
// repeat the call if it lost the answer.
type JobSpec struct {
	ID      agentbox.JobID    `json:"id"`
	Argv    []string          `json:"argv"`
	Dir     string            `json:"dir,omitempty"` // "": the workspace
	Env     map[string]string `json:"env,omitempty"`
	User    string            `json:"user,omitempty"`
	TTY     bool              `json:"tty,omitempty"`
	Term    string            `json:"term,omitempty"`
	Columns int               `json:"columns,omitempty"`
	Rows    int               `json:"rows,omitempty"`
	// Input means that a job without a terminal reads what clients send. Otherwise its standard
	// input is empty.
	Input bool `json:"input,omitempty"`
	// Expect means that a client will attach and must not miss anything: the box keeps the output for
	// it, and the job waits up to half a minute for it.
	Expect bool `json:"expect,omitempty"`
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

// JobInfo is a job and the location of its files. Dir contains the record and the transcript; see
// package job.
type JobInfo struct {
	Job agentbox.Job `json:"job"`
	Dir string       `json:"dir"`
}

// JobSignal sends a signal, named without SIG (such as TERM), to the processes of a job.
type JobSignal struct {
	ID     agentbox.JobID `json:"id"`
	Signal string         `json:"signal"`
}
