package agentbox

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"agentbox/vmm/guest/protocol"
)

// JobID identifies a job on this machine. It is random and never used twice, so a job that is
// started twice under one ID (by the next daemon, for example) runs once. Its text form is "j-" and
// eight hex digits, which distinguishes it from IDs of boxes and tasks.
type JobID [4]byte

const jobPrefix = "j-"

// NewJobID returns a random ID.
func NewJobID() JobID {
	var id JobID
	rand.Read(id[:]) // never fails since Go 1.24
	return id
}

// ParseJobID parses "j-" and eight hex digits.
func ParseJobID(s string) (JobID, error) {
	digits, ok := strings.CutPrefix(s, jobPrefix)
	b, err := hex.DecodeString(digits)
	if !ok || err != nil || len(b) != len(JobID{}) {
		return JobID{}, fmt.Errorf("%q is not a job's id (%s and 8 hex digits)", s, jobPrefix)
	}
	return JobID(b), nil
}

// String returns "j-" and eight lower-case hex digits.
func (j JobID) String() string { return jobPrefix + hex.EncodeToString(j[:]) }

// MarshalText implements encoding.TextMarshaler, so that an ID is a string in JSON.
func (j JobID) MarshalText() ([]byte, error) { return []byte(j.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (j *JobID) UnmarshalText(b []byte) error {
	v, err := ParseJobID(string(b))
	if err == nil {
		*j = v
	}
	return err
}

// JobSpec is a job to start. A second start with the same ID starts nothing, so a client can repeat
// the call if it lost the answer.
type JobSpec struct {
	ID JobID `json:"id"`
	// Expect means that a client will attach and must not miss anything: the box keeps the output for
	// it, and the job waits up to half a minute for it.
	Expect bool `json:"expect,omitempty"`
	protocol.JobSpec
}

// JobStart is what is known of a job from its start on: Command, Dir and User are as requested, or as
// a guest reports for a job that a fork brought along; Started is this host's time.
type JobStart struct {
	ID      JobID    `json:"id"`
	Command []string `json:"command"`
	// Dir is an absolute path in the box, or "" for the workspace. User is a user name in the box,
	// or "" for the configured one.
	Dir     string    `json:"dir,omitempty"`
	User    string    `json:"user,omitempty"`
	TTY     bool      `json:"tty,omitempty"`
	Started time.Time `json:"started"`
}

// JobState is what a job is doing. It is derived from how the job ended or, if it has not, from
// what its box is doing.
type JobState string

const (
	JobRunning JobState = "running"
	JobPaused  JobState = "paused" // with its box
	JobEnded   JobState = "ended"  // by itself or by a signal
	JobLost    JobState = "lost"   // its machine ended while it ran
)

// Job is one command that a box keeps running when nobody is watching. Its output is in its
// transcript. The record beside the transcript is durable, so jobs that ended are listed as long as
// their box exists.
type Job struct {
	JobStart
	Box     BoxID     `json:"box"`
	BoxName string    `json:"box_name"`
	State   JobState  `json:"state"`
	Ended   time.Time `json:"ended,omitzero"`
	// Exit is the status as a shell reports it: 128 plus the signal number if a signal ended the
	// job. It is nil while the job runs and if it was lost.
	Exit   *int   `json:"exit,omitempty"`
	Signal string `json:"signal,omitempty"` // the name of that signal
	// Omitted counts the bytes of output missing from the transcript, because it exceeded its
	// bound. It is known only after the job has ended.
	Omitted uint64 `json:"left_out,omitempty"`
}
