package agentbox

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// TaskID names a task on this machine: random, never used twice. The text is "t-" and eight hex
// digits, and a unique prefix of it is enough wherever a task is named.
type TaskID [4]byte

const taskPrefix = "t-"

// NewTaskID draws an id.
func NewTaskID() TaskID {
	var id TaskID
	rand.Read(id[:]) // never fails since Go 1.24
	return id
}

// ParseTaskID reads "t-" and eight hex digits.
func ParseTaskID(s string) (TaskID, error) {
	digits, ok := strings.CutPrefix(s, taskPrefix)
	b, err := hex.DecodeString(digits)
	if !ok || err != nil || len(b) != len(TaskID{}) {
		return TaskID{}, fmt.Errorf("%q is not a task's id (%s and 8 hex digits)", s, taskPrefix)
	}
	return TaskID(b), nil
}

func (id TaskID) String() string { return taskPrefix + hex.EncodeToString(id[:]) }

// MarshalText makes an id a JSON string.
func (id TaskID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (id *TaskID) UnmarshalText(b []byte) error {
	v, err := ParseTaskID(string(b))
	if err == nil {
		*id = v
	}
	return err
}

// TaskState is what a task is doing. It is derived: from its result, else from whether it has an
// attempt that has none. So a daemon that dies while a task runs leaves no state to mend.
type TaskState string

// The last five are how a task ended.
const (
	TaskQueued    TaskState = "queued"
	TaskRunning   TaskState = "running"
	TaskSucceeded TaskState = "succeeded" // its command ended with status 0
	TaskFailed    TaskState = "failed"    // with another, or could not be run
	TaskLimited   TaskState = "limited"   // a limit ended it
	TaskLost      TaskState = "lost"      // its machine ended under it
	TaskCancelled TaskState = "cancelled"
)

// Done tells whether a task is in a state that it stays in.
func (s TaskState) Done() bool { return s != TaskQueued && s != TaskRunning }

// TaskSpec is what a task is to do, as it was submitted: it is written once and does not change, so
// that every attempt, also one that a later daemon makes, does the same. Flags that are absent
// leave a thing to the configuration as it is when the attempt begins.
type TaskSpec struct {
	// Directory is the absolute path of the checkout that its boxes are made from, as it is when
	// the attempt begins.
	Directory string   `json:"directory"`
	Project   string   `json:"project"` // its canonical name
	Command   []string `json:"command"`
	// Agent names the agent whose program the box has, "" for none; its prompt is the last word of
	// Command.
	Agent     string            `json:"agent,omitempty"`
	Dir       string            `json:"dir,omitempty"` // in the box
	User      string            `json:"user,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	TTY       bool              `json:"tty,omitempty"`
	Image     string            `json:"image,omitempty"`
	Isolation Isolation         `json:"isolation,omitempty"`
	CPUs      int               `json:"cpus,omitempty"`
	Memory    string            `json:"memory,omitempty"`
	// Cold: boot the machine, do not restore a template.
	Cold bool `json:"cold,omitempty"`
	// Environ has NAME=VALUE of the submitter's environment, only those that the configuration
	// names in its includes.
	Environ []string `json:"environ,omitempty"`
	// Held: a client waits for it, takes its output and gives it input. It is cancelled if that
	// client goes away.
	Held    bool       `json:"held,omitempty"`
	Input   bool       `json:"input,omitempty"` // the command reads what its holder sends
	Term    string     `json:"term,omitempty"`  // of its terminal, and its size
	Columns int        `json:"columns,omitempty"`
	Rows    int        `json:"rows,omitempty"`
	Limits  TaskLimits `json:"limits"`

	// Artifacts are globs of files that are kept when the command ends; see the package artifact.
	Artifacts []string `json:"artifacts,omitempty"`
	// ArtifactsIn is the directory that they begin at, and Lockfiles too, relative to the
	// repository's root.
	ArtifactsIn string   `json:"artifacts_in,omitempty"`
	Lockfiles   []string `json:"lockfiles,omitempty"` // relative to the same

	Retries int `json:"retries,omitempty"` // attempts after one that failed or was lost
}

// Alone is the same for a task that nobody waits for. A retry is such a task: the client that held
// the first try is gone.
func (s TaskSpec) Alone() TaskSpec {
	s.Held, s.Input = false, false
	return s
}

// TaskLimits bound each attempt, and take the place of those of the configuration; zero leaves one
// to the configuration. What ends an attempt is a Limit.
type TaskLimits struct {
	// Wall runs from the moment when the attempt's machine became its box; Idle is time without
	// output or network traffic; CPU is processor time of the machine.
	Wall time.Duration `json:"wall,omitempty"`
	Idle time.Duration `json:"idle,omitempty"` // without output or network traffic
	CPU  time.Duration `json:"cpu,omitempty"`

	Tokens int64   `json:"tokens,omitempty"` // of models
	Cost   float64 `json:"cost,omitempty"`   // in the currency of the table of rates
}

// Task is one unit of agent work, with what became of it.
type Task struct {
	ID TaskID `json:"id"`
	TaskSpec
	Batch    TaskID    `json:"batch"` // the first of those that were submitted together
	State    TaskState `json:"state"`
	Created  time.Time `json:"created"`
	Attempts []Attempt `json:"attempts,omitempty"`

	// Used is by all attempts together, one that goes on included; nil where it could not be found out.
	Used *Consumption `json:"used,omitempty"`
	// Costs is what Used comes to: one entry, unless the table of rates changed its currency
	// between attempts.
	Costs []Cost `json:"costs,omitempty"`
}

// Account adds what an attempt has used, and what that cost. Either may be nil: what could not be
// measured is left out of the sum.
func (t *Task) Account(used *Consumption, cost *Cost) {
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

// Attempt is one box in which a task was tried. Its box and job are named before either exists, so
// that a daemon that takes over finds what was made, or makes it.
type Attempt struct {
	Number  int       `json:"number"` // from 1
	BoxName string    `json:"box_name"`
	Job     JobID     `json:"job"`
	Started time.Time `json:"started"`
	Result  *Result   `json:"result,omitempty"` // nil while it goes on
}

// Result is how an attempt ended. It is written once, whole, after everything that it names was
// written: while there is none the attempt goes on. Its counts are of what was kept, and lists are
// bounded by those that filled them.
type Result struct {
	State TaskState `json:"state"`
	// Exit is the command's status; nil when the command did not run, or its machine was lost.
	Exit    *int      `json:"exit,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Limit   Limit     `json:"limit,omitzero"` // that ended it, of TaskLimited
	End     *End      `json:"end,omitempty"`  // of its machine, where the attempt ended with that
	Ended   time.Time `json:"ended"`
	LeftOut uint64    `json:"left_out,omitempty"` // bytes that the transcript lacks
	Commits int       `json:"commits"`            // that were made in it
	Files   int       `json:"files"`              // changed and not committed

	Artifacts int `json:"artifacts,omitempty"` // files that were kept of it

	// Changes has the first of the files that differ from how the attempt began, committed or not.
	Changes []FileChange `json:"changes,omitempty"`

	Used *Consumption `json:"used,omitempty"` // nil where it could not be found out
	Cost *Cost        `json:"cost,omitempty"` // of Used; nil where there was no table of rates
	// Denied is what its box was refused, in the order of first attempts.
	Denied   []Denial   `json:"denied,omitempty"`
	Pressure []Pressure `json:"pressure,omitempty"` // what its box had too little of
	Services []string   `json:"services,omitempty"` // whose logs were kept

	Ref    string `json:"ref,omitempty"`    // where the work is kept
	Commit string `json:"commit,omitempty"` // that Ref names
	// Base is the commit that the box began with; "" where the repository had none.
	Base string `json:"base,omitempty"`
	// Box names the box that still has the work, where it could not be kept in the mirror; ""
	// otherwise.
	Box string `json:"box,omitempty"`

	// Uncollected: Box also has artifacts that could not be taken out of it.
	Uncollected bool `json:"uncollected,omitempty"`
}

// Last is the latest attempt, nil for a task that has none. It points into t.Attempts.
func (t Task) Last() *Attempt {
	if len(t.Attempts) == 0 {
		return nil
	}
	return &t.Attempts[len(t.Attempts)-1]
}
