package api

import (
	"time"

	"agentbox/agentbox"
)

// The calls about tasks.
var (
	SubmitTasks = Endpoint[TaskSubmission, []agentbox.Task]{"/v1/task/submit"}
	ListTasks   = Endpoint[TaskList, []agentbox.Task]{"/v1/task/list"}
	ShowTask    = Endpoint[TaskRef, TaskInfo]{"/v1/task/show"}
	WaitTask    = Endpoint[TaskRef, agentbox.Task]{"/v1/task/wait"}
	CancelTask  = Endpoint[TaskRef, agentbox.Task]{"/v1/task/cancel"}
	RetryTask   = Endpoint[TaskRef, agentbox.Task]{"/v1/task/retry"}
	RemoveTask  = Endpoint[TaskRef, agentbox.Task]{"/v1/task/remove"}

	// RunTask begins a held task, and answers when its command runs.
	RunTask = Endpoint[TaskSubmission, TaskBegun]{"/v1/task/run"}
	// HoldTask answers when the task has ended and its box is gone; to hang up is to cancel it.
	HoldTask    = Endpoint[TaskRef, agentbox.Task]{"/v1/task/hold"}
	ReleaseTask = Endpoint[TaskRef, None]{"/v1/task/release"} // it goes on without a holder
	// LimitTask ends it at a limit that its holder keeps.
	LimitTask = Endpoint[TaskLimit, None]{"/v1/task/limit"}
)

// TaskSubmission is one or more tasks that differ in their commands; Spec.Command is not looked at.
// On an error some of them may have been queued.
type TaskSubmission struct {
	Spec     agentbox.TaskSpec `json:"spec"`
	Commands [][]string        `json:"commands"` // one task each
	// Parallel bounds how many of them run at once; 0 leaves it to the room that this machine has.
	Parallel int `json:"parallel,omitempty"`
	// Environ is the caller's environment, as of UpRequest; of it only what includes name is kept.
	Environ []string `json:"environ,omitempty"`
}

// TaskList asks for the tasks of the project that a directory is part of, or for all.
type TaskList struct {
	Directory string `json:"directory,omitempty"`
	All       bool   `json:"all,omitempty"`
}

// TaskBegun is a held task whose command runs, or has run: then a client that attaches has all it
// wrote.
type TaskBegun struct {
	Task agentbox.Task `json:"task"`
	// Connection: of its box; empty for a task that has ended already.
	Connection Connection `json:"connection"`
}

// TaskLimit ends a task.
type TaskLimit struct {
	Task  string         `json:"task"`
	Limit agentbox.Limit `json:"limit"`
}

// TaskRef names a task by its id or a unique beginning of it.
type TaskRef struct {
	Task string `json:"task"`
}

// TaskInfo is a task with its evidence.
type TaskInfo struct {
	Task      agentbox.Task `json:"task"`
	Directory string        `json:"evidence"` // of its last attempt; "" for a task that has none
	Timeline  []TaskMoment  `json:"timeline,omitempty"`

	// Now is what is known so far of an attempt that goes on; nil for any other.
	Now *agentbox.Result `json:"now,omitempty"`
}

// TaskMoment is one thing that happened in an attempt. They are in order of time, made from records
// when they are asked for.
type TaskMoment struct {
	Attempt int           `json:"attempt"`
	Time    time.Time     `json:"time"`
	What    string        `json:"what"`
	Detail  string        `json:"detail,omitempty"`
	Took    time.Duration `json:"took,omitempty"`
}
