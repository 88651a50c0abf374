package agentbox

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// TaskID names a task on this machine: never used twice.
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
// attempt that has none.
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

// TaskSpec is what a task is to do.
type TaskSpec struct {
	Directory string            `json:"directory"` // the checkout that its box is made from, as it is when the task begins
	Project   string            `json:"project"`   // its canonical name
	Command   []string          `json:"command"`
	Agent     string            `json:"agent,omitempty"` // whose program the box has; its prompt is the last word of Command
	Dir       string            `json:"dir,omitempty"`   // in the box
	User      string            `json:"user,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	TTY       bool              `json:"tty,omitempty"`
	Image     string            `json:"image,omitempty"`
	Isolation Isolation         `json:"isolation,omitempty"`
	CPUs      int               `json:"cpus,omitempty"`
	Memory    string            `json:"memory,omitempty"`
	Cold      bool              `json:"cold,omitempty"`    // boot the machine, do not restore a template
	Environ   []string          `json:"environ,omitempty"` // NAME=VALUE of the submitter's environment, for what the configuration includes
	Held      bool              `json:"held,omitempty"`    // somebody waits for it, who takes its output and gives it input
	Input     bool              `json:"input,omitempty"`   // the command reads what its holder sends
	Term      string            `json:"term,omitempty"`    // of its terminal, and its size
	Columns   int               `json:"columns,omitempty"`
	Rows      int               `json:"rows,omitempty"`
	Limits    TaskLimits        `json:"limits"`

	Artifacts   []string `json:"artifacts,omitempty"`    // globs of files that are kept when it ends
	ArtifactsIn string   `json:"artifacts_in,omitempty"` // the directory that they begin at, relative to the repository's root
	Lockfiles   []string `json:"lockfiles,omitempty"`    // relative to the same

	Retries int `json:"retries,omitempty"` // attempts after one that failed or was lost
}

// Alone is the same for a task that nobody waits for.
func (s TaskSpec) Alone() TaskSpec {
	s.Held, s.Input = false, false
	return s
}

// TaskLimits bound each attempt, over those of the configuration; zero leaves it to that.
type TaskLimits struct {
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

	Used  *Consumption `json:"used,omitempty"`  // by all attempts, one that goes on included; nil where nothing is known
	Costs []Cost       `json:"costs,omitempty"` // of Used: one, unless the table of rates changed its currency between attempts
}

// Account adds what an attempt has used, and what that cost.
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

// Attempt is one box in which a task was tried.
type Attempt struct {
	Number  int       `json:"number"` // from 1
	BoxName string    `json:"box_name"`
	Job     JobID     `json:"job"`
	Started time.Time `json:"started"`
	Result  *Result   `json:"result,omitempty"` // nil while it goes on
}

// Result is how an attempt ended. It is written once.
type Result struct {
	State   TaskState `json:"state"`
	Exit    *int      `json:"exit,omitempty"` // none when the command did not run, or its machine went
	Reason  string    `json:"reason,omitempty"`
	Limit   Limit     `json:"limit,omitzero"` // that ended it, of TaskLimited
	Ended   time.Time `json:"ended"`
	LeftOut uint64    `json:"left_out,omitempty"` // bytes that the transcript lacks
	Commits int       `json:"commits"`            // that were made in it
	Files   int       `json:"files"`              // changed and not committed

	Artifacts int `json:"artifacts,omitempty"` // files that were kept of it

	Changes []FileChange `json:"changes,omitempty"` // of files since it began, committed or not; the first of them

	Used     *Consumption `json:"used,omitempty"`     // nil where it could not be found out
	Cost     *Cost        `json:"cost,omitempty"`     // of Used; nil where there was no table of rates
	Denied   []Denial     `json:"denied,omitempty"`   // what its box was refused, those first that came first
	Pressure []Pressure   `json:"pressure,omitempty"` // what its box had too little of
	Services []string     `json:"services,omitempty"` // whose logs were kept

	Ref    string `json:"ref,omitempty"`    // where the work is kept
	Commit string `json:"commit,omitempty"` // that Ref names
	Base   string `json:"base,omitempty"`   // the commit that the box began with; "" where there was none
	Box    string `json:"box,omitempty"`    // the box that has the work, where it could not be kept elsewhere

	Uncollected bool `json:"uncollected,omitempty"` // Box has artifacts that could not be taken
}

// Last is the latest attempt, nil for a task that has none.
func (t Task) Last() *Attempt {
	if len(t.Attempts) == 0 {
		return nil
	}
	return &t.Attempts[len(t.Attempts)-1]
}
