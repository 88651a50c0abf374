package environment

import (
	"context"
	"encoding/json"

	"golang.org/x/crypto/ssh"
)

// AttachChannel is the SSH channel type by which a client attaches to a job: its extra data is a
// JobAttach as JSON. It works like a session whose command already runs: input, output, errors,
// window-change, signal, and exit-status at the end. Closing it detaches from the job, which goes
// on.
const AttachChannel = "attach-job@agentbox"

// JobAttach says how a client attaches to a job. It is the wire format, so fields may be added but
// not renamed: client and supervisor can be of different builds.
type JobAttach struct {
	Job      string `json:"job"`
	Columns  int    `json:"columns,omitempty"` // of the client's terminal; 0 for a client without
	Rows     int    `json:"rows,omitempty"`
	Replay   bool   `json:"replay,omitempty"`    // begin with the last screenful
	Whole    bool   `json:"whole,omitempty"`     // the client loses nothing: the job waits for it, as for a pipe
	EndInput bool   `json:"end_input,omitempty"` // the end of the client's input is the end of the job's
}

// Attach joins a job, with cmd's streams, signals and terminal, and returns when the job or ctx has
// ended. A client that leaves does not end the job. cmd's Argv, Env, Dir and User are not used, as
// the command already runs. Errors are those of Exec.
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
