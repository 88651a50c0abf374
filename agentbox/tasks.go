package agentbox

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// TaskID identifies a task on this machine. It is random and never used twice. Its text form is
// "t-" and eight hex digits; commands also accept a unique prefix.
type TaskID [4]byte

const taskPrefix = "t-"

// NewTaskID returns a random ID.
func NewTaskID() TaskID {
	var id TaskID
	rand.Read(id[:]) // never fails since Go 1.24
	return id
}

// ParseTaskID parses "t-" and eight hex digits.
func ParseTaskID(s string) (TaskID, error) {
	digits, ok := strings.CutPrefix(s, taskPrefix)
	b, err := hex.DecodeString(digits)
	if !ok || err != nil || len(b) != len(TaskID{}) {
		return TaskID{}, fmt.Errorf("%q is not a task's id (%s and 8 hex digits)", s, taskPrefix)
	}
	return TaskID(b), nil
}

// String returns "t-" and eight lower-case hex digits.
func (t TaskID) String() string { return taskPrefix + hex.EncodeToString(t[:]) }

// MarshalText implements encoding.TextMarshaler, so that an ID is a string in JSON.
func (t TaskID) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *TaskID) UnmarshalText(b []byte) error {
	v, err := ParseTaskID(string(b))
	if err == nil {
		*t = v
	}
	return err
}

// TaskState is what a task is doing. It is derived from the task's result or, without one, from
// whether an attempt has no result yet. So a daemon that dies while a task runs leaves no state to
// repair.
type TaskState string

// The last five say how a task ended.
const (
	TaskQueued    TaskState = "queued"
	TaskRunning   TaskState = "running"
	TaskSucceeded TaskState = "succeeded" // its command ended with status 0
	TaskFailed    TaskState = "failed"    // its command ended with another status, or could not be run
	TaskLimited   TaskState = "limited"   // a limit ended it
	TaskLost      TaskState = "lost"      // its machine ended while it ran
	TaskCancelled TaskState = "cancelled"
)

// Done reports whether the state is final.
func (t TaskState) Done() bool { return t != TaskQueued && t != TaskRunning }

// TaskSpec is what a task is to do, as it was submitted. It is written once and never changes, so
// that every attempt does the same, even one made by a later daemon. Absent flags leave the choice
// to the configuration as it is when the attempt begins.
type TaskSpec struct {
	// Directory is the absolute path of the directory that the task was submitted from.
	Directory string `json:"directory"`
	// Source is what the task's boxes are made from; nil for the checkout of Directory, in its state
	// when the attempt begins.
	Source  *SourceRef `json:"source,omitempty"`
	Project string     `json:"project"` // its canonical name
	Command []string   `json:"command"`
	// Agent names the agent whose program the box contains, or "" for none. Its prompt is the last
	// word of Command.
	Agent string `json:"agent,omitempty"`
	// AgentHosts are the hosts without which Agent cannot work: names, or *.NAME for all below.
	AgentHosts []string          `json:"agent_hosts,omitempty"`
	Dir        string            `json:"dir,omitempty"` // in the box
	User       string            `json:"user,omitempty"`
	Env        map[string]string `json:"env,omitempty"`
	TTY        bool              `json:"tty,omitempty"`
	Image      string            `json:"image,omitempty"`
	Pinned     Digest            `json:"pinned,omitzero"` // agentbox.lock's image at the submission
	Isolation  Isolation         `json:"isolation,omitempty"`
	CPUs       int               `json:"cpus,omitempty"`
	Memory     string            `json:"memory,omitempty"`
	// Cold makes the machine boot if its kind is restored from a template otherwise.
	Cold bool `json:"cold,omitempty"`
	// Environ has NAME=VALUE pairs of the submitter's environment, only for variables that the
	// configuration's includes name.
	Environ []string `json:"environ,omitempty"`
	// Foreground: a client waits for the task, reads its output and sends it input. The task is
	// cancelled if that client disconnects.
	Foreground bool       `json:"held,omitempty"`
	Input      bool       `json:"input,omitempty"` // the command reads what that client sends
	Term       string     `json:"term,omitempty"`  // of the client's terminal, as is its size
	Columns    int        `json:"columns,omitempty"`
	Rows       int        `json:"rows,omitempty"`
	Limits     TaskLimits `json:"limits"`

	// Artifacts are globs of files to keep when the command ends; see package artifact.
	Artifacts []string `json:"artifacts,omitempty"`
	// ArtifactsIn is the directory in which Artifacts and Lockfiles begin, relative to the
	// repository's root.
	ArtifactsIn string   `json:"artifacts_in,omitempty"`
	Lockfiles   []string `json:"lockfiles,omitempty"` // relative to the same directory

	Checks []Check `json:"checks,omitempty"` // run over what an attempt left

	Retries int `json:"retries,omitempty"` // extra attempts after one that failed or was lost

	// After are tasks that have to succeed before this one begins. If one does not, this one is
	// cancelled.
	After []TaskID `json:"after,omitempty"`
	// Where is which machines of the team may run it: "" is this one, "idle" any that is idle, else the
	// ID of a peer, or k8s:CONTEXT for a cluster (package kube).
	Where string `json:"where,omitempty"`
	// Secrets are names of secrets that the machine which runs the task may use. Their values are asked of
	// this machine for each request.
	Secrets []string `json:"secrets,omitempty"`
	// Continue is what the first attempt's box is made from instead of Source: a snapshot of an attempt
	// that another machine began. Source still says what was there before the task.
	Continue *SourceRef `json:"continue,omitempty"`
	// For says whose task this machine runs; nil for one of its own.
	For *TaskOrigin `json:"for,omitempty"`
	// Schedule is the ID of the schedule that submitted the task, or "".
	Schedule string `json:"schedule,omitempty"`
}

// TaskOrigin is the attempt of another machine's task that this machine runs; see package fleet.
type TaskOrigin struct {
	Owner   string `json:"owner"` // a peer's ID
	Name    string `json:"name"`  // of the owner, for people
	Task    TaskID `json:"task"`
	Attempt int    `json:"attempt"`
	Fence   uint64 `json:"fence"`
	// Loan is what the owner lends to the task's boxes (policy.Loan).
	Loan json.RawMessage `json:"loan,omitempty"`
}

// SourceRef names a source (package source), and says where it is from.
type SourceRef struct {
	Digest Digest `json:"digest"`
	// Directory is the root of the checkout that it was captured from. It is shown, and boxes are found
	// by it. Elsewhere means that it is on another machine.
	Directory string `json:"directory,omitempty"`
	Elsewhere bool   `json:"elsewhere,omitempty"`
	// Apart means that its box is found by the digest, and not by a directory and branch.
	Apart bool `json:"apart,omitempty"`
	// Subdir is where below that the caller was, slash-separated; "" for the root.
	Subdir string `json:"subdir,omitempty"`
}

// Unattended returns the same spec for a task that no client waits for. A retry is such a task: the
// client that held the first attempt is gone.
func (t TaskSpec) Unattended() TaskSpec {
	t.Foreground, t.Input = false, false
	return t
}

// TaskLimits bound each attempt and override those of the configuration; a zero field leaves that
// limit to the configuration. If one ends an attempt, the result has it as a Limit.
type TaskLimits struct {
	// Wall counts from the moment the attempt's machine became its box. Idle is time without output
	// or network traffic. CPU is processor time of the machine.
	Wall time.Duration `json:"wall,omitempty"`
	Idle time.Duration `json:"idle,omitempty"`
	CPU  time.Duration `json:"cpu,omitempty"`

	Tokens int64   `json:"tokens,omitempty"` // of models
	Cost   float64 `json:"cost,omitempty"`   // in the currency of the table of rates
	// BatchCost bounds all attempts of all tasks that were submitted together.
	BatchCost float64 `json:"batch_cost,omitempty"`
}

// Task is one unit of agent work with its outcome.
type Task struct {
	ID TaskID `json:"id"`
	TaskSpec
	Batch    TaskID    `json:"batch"` // the first of the tasks that were submitted together
	State    TaskState `json:"state"`
	Created  time.Time `json:"created"`
	Attempts []Attempt `json:"attempts,omitempty"`

	// Used is the sum over all attempts, including one that is running. It is nil if it could not
	// be measured.
	Used *Consumption `json:"used,omitempty"`
	// Costs is the price of Used. It has one entry unless the table of rates changed its currency
	// between attempts.
	Costs []Cost `json:"costs,omitempty"`
	// Delivered means, of another machine's task, that its owner has the result. It stays for its box.
	Delivered bool `json:"delivered,omitempty"`
}

// AddUsage adds what an attempt used, and its cost. Either may be nil: what could not be measured
// is left out of the sum.
func (t *Task) AddUsage(used *Consumption, cost *Cost) {
	if used != nil {
		sum := *used
		if t.Used != nil {
			sum = t.Used.Plus(sum)
		}
		t.Used = &sum
	}
	if cost != nil {
		t.Costs = AddCost(t.Costs, *cost)
	}
}

// Attempt is one try of a task in a box of its own. Box and job get their IDs before either exists,
// so that a daemon that takes over can find what was made, or make it.
type Attempt struct {
	Number  int       `json:"number"` // from 1
	BoxName string    `json:"box_name"`
	Job     JobID     `json:"job"`
	Started time.Time `json:"started"`
	Result  *Result   `json:"result,omitempty"` // nil while the attempt runs
	// Worker is the name of the machine of the team that runs it, or ran it; "" for this one.
	Worker string `json:"worker,omitempty"`
	// Kept means that Worker keeps it, for this machine that may sleep, and has others run it.
	Kept bool `json:"kept,omitempty"`
	// Continue is what the attempt's box is made from, if it goes on from an earlier one; nil for the
	// task's Source.
	Continue *SourceRef `json:"continue,omitempty"`
	// Saved is the last snapshot of the box while it ran; nil before the first.
	Saved *SavedWork `json:"saved,omitempty"`
}

// SavedWork is a snapshot of the box of an attempt, taken while its command ran.
type SavedWork struct {
	Time     time.Time `json:"time"`
	Snapshot Digest    `json:"snapshot"`
	Commits  int       `json:"commits"` // since the task began
	Files    int       `json:"files"`   // uncommitted
}

// Result is how an attempt ended. It is written once, as a whole, after everything that it names
// was written; without one, the attempt is still running. Counts cover what was kept, and the code
// that fills the lists bounds them.
type Result struct {
	State TaskState `json:"state"`
	// Exit is the command's status. It is nil if the command did not run or its machine was lost.
	Exit   *int   `json:"exit,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Cause is what the failure comes from, if that is known: CausePolicy.
	Cause   string    `json:"cause,omitempty"`
	Limit   Limit     `json:"limit,omitzero"` // the limit that was reached, for TaskLimited
	End     *End      `json:"end,omitempty"`  // of the machine, if that ended the attempt
	Ended   time.Time `json:"ended"`
	Omitted uint64    `json:"left_out,omitempty"` // bytes missing from the transcript
	Commits int       `json:"commits"`            // made in the attempt
	Files   int       `json:"files"`              // changed but not committed

	Artifacts int `json:"artifacts,omitempty"` // files kept
	// Checks are how the task's checks went over Commit; there are none without it.
	Checks []CheckResult `json:"checks,omitempty"`

	// Changes has the first of the files that differ from the start of the attempt, committed or
	// not.
	Changes []FileChange `json:"changes,omitempty"`

	Used *Consumption `json:"used,omitempty"` // nil if it could not be measured
	Cost *Cost        `json:"cost,omitempty"` // of Used; nil without a table of rates
	// Denied lists what the box was refused, in the order of the first attempts.
	Denied   []Denial   `json:"denied,omitempty"`
	Pressure []Pressure `json:"pressure,omitempty"` // what the box ran short of
	Services []string   `json:"services,omitempty"` // services whose logs were kept

	// OtherWork is kept in the project's mirror beside Ref.
	OtherWork []OtherWork `json:"other_work,omitempty"`
	// Missing lists what could not be kept, and why; Box has it. Notes lists what was kept in
	// another form.
	Missing []string `json:"missing,omitempty"`
	Notes   []string `json:"notes,omitempty"`
	// Unexported says why the checkout does not have Ref, although the mirror has.
	Unexported string `json:"unexported,omitempty"`

	Ref    string `json:"ref,omitempty"`    // the git ref that keeps the work
	Commit string `json:"commit,omitempty"` // the commit of Ref
	// Base is the commit that the box began with, or "" if the repository had none.
	Base string `json:"base,omitempty"`
	// Box names the box that still has the work, if the work could not be saved in the mirror; else
	// it is "".
	Box string `json:"box,omitempty"`

	// Uncollected means that Box also has artifacts that could not be copied out of it.
	Uncollected bool `json:"uncollected,omitempty"`
}

// MaxFailedOn is on how many machines of a team a task may fail: then it is the task's fault, and
// TaskSpec.Retries makes no further attempt.
const MaxFailedOn = 3

// CausePolicy is the cause of a failure of an agent that the policy denied one of its own hosts.
const CausePolicy = "policy"

// NamesHost reports whether a host is in a list of names, or of *.NAME for all names below.
func NamesHost(list []string, host string) bool {
	return slices.ContainsFunc(list, func(name string) bool {
		below, ok := strings.CutPrefix(name, "*")
		return name == host || ok && strings.HasSuffix(host, below)
	})
}

// OtherWork is a part of a box's work that the commit of its workspace does not contain. The box chose
// its names, which are printable.
type OtherWork struct {
	// Name is that of the ref, without refs/heads/ for a branch; "detached" or a name such as
	// MERGE_HEAD for a commit without one.
	Name string `json:"name"`
	// Path is the work tree, or the repository in the workspace, that it is of, relative to the
	// workspace; "" for a ref of the workspace's own repository.
	Path    string `json:"path,omitempty"`
	Commit  string `json:"commit"`            // with what was uncommitted
	Commits int    `json:"commits,omitempty"` // made in the box; 0 if they cannot be counted
	Files   int    `json:"files,omitempty"`   // uncommitted
	Ref     string `json:"ref,omitempty"`     // in the mirror
	Branch  string `json:"branch,omitempty"`  // that `pull` made of it in a checkout
}

// KeptForOthers is how long what came of another machine's task stays here if nobody takes it.
const KeptForOthers = 30 * 24 * time.Hour

// KeptUntil is when a task of another machine goes that has ended here, with the box that it left; zero for
// any other task.
func (t Task) KeptUntil() time.Time {
	if t.For == nil || !t.State.Done() {
		return time.Time{}
	}
	ended := t.Created
	if last := t.Last(); last != nil && last.Result != nil {
		ended = last.Result.Ended
	}
	return ended.Add(KeptForOthers)
}

// EndedBefore reports whether the task had ended before when, and was submitted before it.
func (t Task) EndedBefore(when time.Time) bool {
	last := t.Last()
	return t.State.Done() && t.Created.Before(when) && (last == nil || last.Result == nil || last.Result.Ended.Before(when))
}

// Last returns the latest attempt, or nil if there is none. It points into t.Attempts.
func (t Task) Last() *Attempt {
	if len(t.Attempts) == 0 {
		return nil
	}
	return &t.Attempts[len(t.Attempts)-1]
}
