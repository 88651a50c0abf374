package environment

import (
	"context"
	"encoding/json"

	"golang.org/x/crypto/ssh"
)

// AttachChannel is the SSH channel type by which a client attaches to a job: its extra data is a
// JobAttach as JSON. Otherwise it is as a session whose command runs already: input, output,
// errors, window-change, signal, and exit-status at the end. To close it is to leave the job, which
// goes on.
const AttachChannel = "attach-job@agentbox"

// JobAttach says how a client attaches to a job. It is also what travels, so its fields may be
// added to and not renamed: client and supervisor can be of different builds.
type JobAttach struct {
	Job      string `json:"job"`
	Columns  int    `json:"columns,omitempty"` // of the client's terminal; 0 for a client without
	Rows     int    `json:"rows,omitempty"`
	Replay   bool   `json:"replay,omitempty"`    // begin with the last screenful
	Whole    bool   `json:"whole,omitempty"`     // the client loses nothing: the job waits for it, as for a pipe
	EndInput bool   `json:"end_input,omitempty"` // the end of the client's input is the end of the job's
}

// Attach joins a job, with cmd's streams, signals and terminal, and returns when the job has ended
// or ctx has. Then the job goes on: a client that leaves ends nothing. cmd's Argv, Env, Dir and
// User are not used, as the command runs already. Errors are those of Exec.
func Attach(ctx context.Context, client *ssh.Client, job JobAttach, cmd Command) (Status, error) {
	if cmd.TTY != nil {
		job.Columns, job.Rows = cmd.TTY.Size.Width, cmd.TTY.Size.Height
	}
	extra, err := json.Marshal(job)
	if err != nil {
		return Status{}, err
	}
	s, err := newSession(ctx, client, AttachChannel, extra, cmd)
	if err != nil {
		return Status{}, err
	}
	s.leaves = true
	s.copyStreams(job.EndInput)
	return s.wait(ctx)
}
