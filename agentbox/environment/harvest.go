package environment

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
)

// Harvest says which files of the environment to take, as its root user sees them.
type Harvest struct {
	Root  string    `json:"root"`            // names in the archive are relative to it; other file systems below it are left out
	Since time.Time `json:"since,omitzero"`  // only what was made or changed at that time or later; all if it is zero
	Skip  []string  `json:"skip,omitempty"`  // absolute paths that are left out, with all below them
	Paths []string  `json:"paths,omitempty"` // only these below Root, whether or not they changed; a missing one is no error
}

// Take writes the files as a tar archive to w. Only the guest agent can; a stock SSH server refuses. What came is complete
// if and only if the error is nil. The archive is as untrusted as everything else in the environment.
func (h Harvest) Take(ctx context.Context, client *ssh.Client, w io.Writer) error {
	request, err := json.Marshal(h)
	if err != nil {
		return err
	}
	complaint := &limited{left: maxComplaint}
	status, err := Exec(ctx, client, Command{Subsystem: "harvest@agentbox", Stdin: bytes.NewReader(request), Stdout: w, Stderr: complaint})
	if err != nil {
		return err
	}
	if status.Code != 0 {
		return agentbox.Errorf(agentbox.Unavailable, "the box could not give the files of %s: %s", h.Root, strings.TrimSpace(complaint.String()))
	}
	return nil
}

const maxComplaint = 4 << 10

// limited keeps the beginning of what is written.
type limited struct {
	bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	l.Buffer.Write(p[:n])
	return len(p), nil
}
