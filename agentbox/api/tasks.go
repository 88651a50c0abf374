package api

import (
	"time"

	"agentbox/agentbox"
)

// The calls about tasks.
var (
	// SubmitTasks queues tasks. On an error, those queued before it stay.
	SubmitTasks = Endpoint[TaskSubmission, []agentbox.Task]{"/v1/task/submit"}
	// ListTasks returns tasks, oldest first.
	ListTasks = Endpoint[TaskList, []agentbox.Task]{"/v1/task/list"}
	// ShowTask returns a task with its evidence.
	ShowTask = Endpoint[TaskRef, TaskInfo]{"/v1/task/show"}
	// TaskLog returns what the command of a task's last attempt wrote, once that has ended.
	TaskLog = Download[TaskLogRequest]{"/v1/task/log"}
	// WaitTask returns when the task has ended, and its box has been removed or stays.
	WaitTask = Endpoint[TaskRef, agentbox.Task]{"/v1/task/wait"}
	// CancelTask returns before a running task has ended. It is Conflict for one that has ended.
	CancelTask = Endpoint[TaskRef, agentbox.Task]{"/v1/task/cancel"}
	// TransferTasks gives tasks that wait for machines of the team, or have one, to a builder of the team,
	// which keeps them while this machine sleeps; or takes them back.
	TransferTasks = Endpoint[TaskTransfer, []agentbox.Task]{"/v1/task/transfer"}
	// RetryTask repeats a task that has ended, as a new task. It is Conflict for a running one.
	RetryTask = Endpoint[TaskRef, agentbox.Task]{"/v1/task/retry"}
	// RetryBatch repeats the tasks of a task's batch that ended without success, from what they were made
	// from. It is Conflict if there are none.
	RetryBatch = Endpoint[TaskRef, []agentbox.Task]{"/v1/task/retry-batch"}
	// RemoveTask removes an ended task with its evidence. It is Conflict for a running one.
	RemoveTask = Endpoint[TaskRef, agentbox.Task]{"/v1/task/remove"}

	// ScheduleTasks submits tasks at certain times, from then on.
	ScheduleTasks  = Endpoint[NewSchedule, Schedule]{"/v1/task/schedule/add"}
	ListSchedules  = Endpoint[None, []Schedule]{"/v1/task/schedule/list"}
	RemoveSchedule = Endpoint[ScheduleRef, Schedule]{"/v1/task/schedule/remove"}

	// RunTask begins a foreground task and returns when its command runs.
	RunTask = Endpoint[TaskSubmission, TaskStarted]{"/v1/task/run"}
	// HoldTask returns when the task has ended and its box is gone. Closing the connection cancels
	// the task, unless it was released. If the daemon stops, the error is Unavailable and the task
	// goes on, so that the client can hold it through the next daemon.
	HoldTask = Endpoint[TaskRef, agentbox.Task]{"/v1/task/hold"}
	// ReleaseTask lets the task go on without a client, for good.
	ReleaseTask = Endpoint[TaskRef, None]{"/v1/task/release"}
	// LimitTask ends the task at a limit that its client enforces.
	LimitTask = Endpoint[TaskLimit, None]{"/v1/task/limit"}
)

// TaskSubmission is one or more tasks that differ only in their commands; Spec.Command is ignored.
// On an error, some of the tasks may have been queued.
type TaskSubmission struct {
	Spec     agentbox.TaskSpec `json:"spec"`
	Commands [][]string        `json:"commands"` // one task each
	// Parallel bounds how many tasks run at once. 0 means as many as this machine has room for.
	Parallel int `json:"parallel,omitempty"`
	// Environ is the caller's environment, as in UpRequest. Only variables that includes name are
	// kept.
	Environ []string `json:"environ,omitempty"`
}

// TaskList asks for the tasks of the project that a directory belongs to, in all its checkouts. A
// directory outside any checkout means all tasks.
type TaskList struct {
	Directory string `json:"directory,omitempty"`
	All       bool   `json:"all,omitempty"`
	// Since leaves out those that had ended before it.
	Since  time.Time `json:"since,omitzero"`
	Newest int       `json:"newest,omitempty"` // only so many, the newest; 0 is all
}

// TaskStarted is a foreground task whose command runs or has already ended. A client that attaches
// receives all of its output.
type TaskStarted struct {
	Task agentbox.Task `json:"task"`
	// Connection leads to its box. It is empty for a task that has already ended.
	Connection Connection `json:"connection"`
}

// TaskLimit ends a task.
type TaskLimit struct {
	Task  string         `json:"task"`
	Limit agentbox.Limit `json:"limit"`
}

// TaskRef names a task by its ID or a unique prefix of it.
type TaskRef struct {
	Task string `json:"task"`
}

// TaskInfo is a task with its evidence.
type TaskInfo struct {
	Task     agentbox.Task `json:"task"`
	Timeline []TaskEvent   `json:"timeline,omitempty"`

	// Now is what is known so far about a running attempt, else nil.
	Now *agentbox.Result `json:"now,omitempty"`
	// Waits is for what machine of the team it waits; nil if it does not.
	Waits *TaskWait `json:"waits,omitempty"`
}

// TaskTransfer says which tasks go to which machine.
type TaskTransfer struct {
	Tasks []string `json:"tasks,omitempty"` // none means all that can be
	To    string   `json:"to,omitempty"`    // a builder of the team; "" takes them back
}

// TaskWait says since when a task waits for a machine of the team, and what those that are here and run
// tasks of others say of themselves.
type TaskWait struct {
	Since    time.Time     `json:"since"`
	CPUs     int           `json:"cpus,omitempty"`   // that it needs; 0 for any
	Memory   int64         `json:"memory,omitempty"` // bytes; 0 for any
	Machines []TeamMachine `json:"machines"`
	// Problem is why a machine that wanted it did not get it: a secret that cannot be given, say.
	Problem string `json:"problem,omitempty"`
}

// TeamMachine is a machine that runs tasks of others.
type TeamMachine struct {
	Name    string       `json:"name"`
	CPUs    int          `json:"cpus"`   // at most, for one task
	Memory  int64        `json:"memory"` // bytes
	Labels  []string     `json:"labels,omitempty"`
	Against []IdleReason `json:"against,omitempty"` // why it takes none now
}

// TaskLogRequest asks for what the last attempt of a task left: the transcript of its command, or
// the end of the log of a service.
type TaskLogRequest struct {
	TaskRef
	Service string `json:"service,omitempty"` // "" for the command
	Cast    bool   `json:"cast,omitempty"`    // the transcript as an asciicast, not as text
	// Follow goes on until the task has ended, for a task that another machine runs.
	Follow bool `json:"follow,omitempty"`
}

// TaskEvent is one event in an attempt. Events are ordered by time and computed from records on
// request.
type TaskEvent struct {
	Attempt int           `json:"attempt"`
	Time    time.Time     `json:"time"`
	Event   string        `json:"event"`
	Detail  string        `json:"detail,omitempty"`
	Took    time.Duration `json:"took,omitempty"`
}

// Missed is what becomes of times at which no daemon ran.
type Missed string

// Of all times that were missed together, one is made up for, or none.
const (
	MissedOnce Missed = "once"
	MissedSkip Missed = "skip"
)

// NewSchedule asks for tasks at the times of a crontab line.
type NewSchedule struct {
	Times      string         `json:"times"`
	Missed     Missed         `json:"missed"` // "" is MissedOnce
	Submission TaskSubmission `json:"submission"`
}

// Schedule is tasks that are submitted again and again.
type Schedule struct {
	ID string `json:"id"`
	NewSchedule
	Created time.Time       `json:"created"`
	Last    time.Time       `json:"last"`              // the last time that was served or left out, or Created
	Next    time.Time       `json:"next"`              // after Last
	Batch   agentbox.TaskID `json:"batch,omitzero"`    // what was submitted last
	Error   string          `json:"error,omitempty"`   // why the last time submitted nothing
	Skipped int             `json:"skipped,omitempty"` // times that were missed and left out
}

// ScheduleRef names a schedule.
type ScheduleRef struct {
	ID string `json:"id"`
}
