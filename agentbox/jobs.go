package agentbox

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// JobID names a job on this machine: random, and never used twice, so a job that is started twice
// under one id, by the next daemon say, runs once. The text is "j-" and eight hex digits, which
// tells it from ids of boxes and tasks.
type JobID [4]byte

const jobPrefix = "j-"

// NewJobID draws an id.
func NewJobID() JobID {
	var id JobID
	rand.Read(id[:]) // never fails since Go 1.24
	return id
}

// ParseJobID reads "j-" and eight hex digits.
func ParseJobID(s string) (JobID, error) {
	digits, ok := strings.CutPrefix(s, jobPrefix)
	b, err := hex.DecodeString(digits)
	if !ok || err != nil || len(b) != len(JobID{}) {
		return JobID{}, fmt.Errorf("%q is not a job's id (%s and 8 hex digits)", s, jobPrefix)
	}
	return JobID(b), nil
}

func (id JobID) String() string { return jobPrefix + hex.EncodeToString(id[:]) }

// MarshalText makes an id a JSON string.
func (id JobID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (id *JobID) UnmarshalText(b []byte) error {
	v, err := ParseJobID(string(b))
	if err == nil {
		*id = v
	}
	return err
}

// JobState is what a job is doing. It is derived: from how the job ended, if it has, else from what
// its box does.
type JobState string

const (
	JobRunning JobState = "running"
	JobPaused  JobState = "paused" // with its box
	JobEnded   JobState = "ended"  // by itself or by a signal
	JobLost    JobState = "lost"   // its machine ended under it
)

// Job is one command that a box goes on running when nobody looks. What it wrote is in its
// transcript; the record beside that is durable, so jobs that ended are listed as long as their box
// exists.
type Job struct {
	ID      JobID    `json:"id"`
	Box     BoxID    `json:"box"`
	BoxName string   `json:"box_name"`
	Command []string `json:"command"`
	// Dir is an absolute path in the box, "" for the workspace. User is a name in the box, "" for
	// the configuration's.
	Dir     string    `json:"dir,omitempty"`
	User    string    `json:"user,omitempty"`
	TTY     bool      `json:"tty,omitempty"`
	State   JobState  `json:"state"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	// Exit is the status as a shell has it: 128 and the signal's number for a job that a signal
	// ended; nil while it runs and when it was lost.
	Exit   *int   `json:"exit,omitempty"`
	Signal string `json:"signal,omitempty"` // the name of that signal
	// LeftOut counts the bytes of output that its transcript lacks, because it exceeded its bound;
	// known once the job has ended.
	LeftOut uint64 `json:"left_out,omitempty"`
}
