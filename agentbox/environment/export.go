package environment

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/agentbox/bounded"
	"agentbox/vmm/guest/protocol"
)

// Export says which files of the environment to take, as its root user sees them. Paths are
// slash-separated.
type Export struct {
	Root   string     // names in the archive are relative to it; other file systems below it are left out
	Skip   []string   // absolute paths that are left out, with all below them and links beside them that lead to them
	Whole  [][]string // directories that belong together: all are taken whole if anything in one is not as it was
	Paths  []string   // only these below Root, whether or not they changed; a missing one is no error
	Known  *os.File   // an inventory: what is as it was then is left out; nil takes all
	Limits Limits
}

// Limits is the most that is taken from an environment; zero fields do not limit. Exports are kept
// on the host, and an archive without end would fill its disk.
type Limits struct {
	Bytes int64 // of the archive
	Files int
	Time  time.Duration
	File  int64 // of one file; of a larger one there is its size only (protocol.SizeRecord)

	Of, Hint string // of an error: what is too much, and what to do
}

// Inventory records what exists, so that a later Receive can leave out what has not changed. No
// clock is compared for that, neither the host's nor the guest's. Only the guest understands what
// it wrote.
func (e Export) Inventory(ctx context.Context, client *ssh.Client, w io.Writer) error {
	ctx, cancel := e.Limits.context(ctx)
	defer cancel()
	req := protocol.ExportRequest{Root: e.Root, Skip: e.Skip, Paths: e.Paths, Inventory: true}
	return e.ask(ctx, client, req, nil, e.Limits.writer(w))
}

// Receive writes the files as a tar archive to w. Only the guest agent can do that; a stock SSH
// server refuses. The archive is complete if and only if the error is nil. It is as untrusted as
// everything else in the environment. Exceeding the bound is an error of code Conflict.
func (e Export) Receive(ctx context.Context, client *ssh.Client, w io.Writer) error {
	ctx, cancel := e.Limits.context(ctx)
	defer cancel()
	req := protocol.ExportRequest{Root: e.Root, Skip: e.Skip, Whole: e.Whole, Paths: e.Paths, Most: e.Limits.File}
	var known io.Reader
	if e.Known != nil {
		info, err := e.Known.Stat()
		if err != nil {
			return err
		}
		req.Known = info.Size()
		known = io.NewSectionReader(e.Known, 0, req.Known)
	}
	counted, counting := countFiles(e.Limits)
	err := e.ask(ctx, client, req, known, io.MultiWriter(e.Limits.writer(w), counted))
	if tooMany := counting(); tooMany != nil {
		return tooMany
	}
	return err
}

// ask runs the subsystem: the request as one line of JSON, then more, go to its input; the answer
// is its output. If out fails, that error is returned, and not the end of the command that it
// caused.
func (e Export) ask(ctx context.Context, client *ssh.Client, req protocol.ExportRequest, more io.Reader, out io.Writer) error {
	request, err := json.Marshal(req)
	if err != nil {
		return err
	}
	in := io.Reader(bytes.NewReader(append(request, '\n')))
	if more != nil {
		in = io.MultiReader(in, more)
	}
	var complaint bytes.Buffer
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watched := &failingWriter{w: out, failed: cancel}
	status, err := Exec(ctx, client, Command{Subsystem: protocol.ExportSubsystem, Stdin: in, Stdout: watched, Stderr: &bounded.Head{W: &complaint, Remaining: maxComplaint}})
	switch {
	case watched.err != nil:
		return watched.err
	case err != nil && context.Cause(ctx) == errTooLong:
		return e.Limits.exceeded("takes longer than %s", e.Limits.Time)
	case err != nil:
		return err
	case status.Code != 0:
		return agentbox.Errorf(agentbox.Unavailable, "the box could not give the files of %s: %s", e.Root, strings.TrimSpace(complaint.String()))
	}
	return nil
}

// maxComplaint bounds what a box may put into an error message, in bytes.
const maxComplaint = 4 << 10
