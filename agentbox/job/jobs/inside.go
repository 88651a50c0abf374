package jobs

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/bounded"
	"agentbox/agentbox/environment"
)

// Inside serves the calls for programs without SSH. Unlike sessions of the command line, what runs
// through it ends with the daemon; a job does not (jobs).
type Inside struct{ Jobs }

func (i Inside) Handle(mux *http.ServeMux) {
	api.Handle(mux, api.RunInBox, i.Run)
	api.Handle(mux, api.ReadFile, i.read)
	api.Handle(mux, api.WriteFile, i.write)
}

// open connects to a box, which it wakes. The caller closes the client.
func (i Inside) open(ctx context.Context, ref api.BoxRef, user string, progress agentbox.Progress) (api.Connection, *ssh.Client, error) {
	c, err := i.Boxes.Connect(ctx, ref, progress)
	if err != nil {
		return c, nil, err
	}
	if user == "" {
		user = c.User
	}
	client, err := environment.Open(ctx, i.Address(c), user)
	return c, client, err
}

var errTimedOut = errors.New("the time of the command is over")

func (i Inside) Run(ctx context.Context, req api.RunRequest, progress agentbox.Progress) (api.RunResult, error) {
	if (len(req.Argv) == 0) == (req.Script == "") {
		return api.RunResult{}, agentbox.Errorf(agentbox.Invalid, "a command is either argv or script")
	}
	argv := req.Argv
	if req.Script != "" {
		argv = []string{"sh", "-c", req.Script}
	}
	limit := api.MaxRunOutput
	if req.MaxOutput > 0 && req.MaxOutput < limit {
		limit = req.MaxOutput
	}
	c, client, err := i.open(ctx, req.BoxRef, req.User, progress)
	if err != nil {
		return api.RunResult{}, err
	}
	defer client.Close()
	env := map[string]string{}
	for _, vars := range []map[string]string{c.Env, req.Env} { // the later one wins
		maps.Copy(env, vars)
	}
	stdout, stderr := bounded.Ends{Limit: limit}, bounded.Ends{Limit: limit}
	cmd := environment.Command{Argv: argv, Env: env, Dir: inWorkspace(c, req.Dir), Stdin: strings.NewReader(req.Stdin), Stdout: &stdout, Stderr: &stderr}
	if req.Seconds > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeoutCause(ctx, time.Duration(min(req.Seconds, 1e8)*float64(time.Second)), errTimedOut)
		defer cancel()
	}
	status, err := environment.Exec(ctx, client, cmd)
	out := api.RunResult{
		Status: status.Code, Signal: status.Signal, TimedOut: errors.Is(err, errTimedOut), Dropped: stdout.Dropped() + stderr.Dropped(),
		Stdout: strings.ToValidUTF8(string(stdout.Bytes()), "\ufffd"), Stderr: strings.ToValidUTF8(string(stderr.Bytes()), "\ufffd"),
	}
	if out.TimedOut {
		out.Status, err = 124, nil
	}
	return out, err
}

// inWorkspace returns a path in the box; relative ones begin where commands do.
func inWorkspace(c api.Connection, name string) string {
	if path.IsAbs(name) {
		return name
	}
	return path.Join(c.Dir, name)
}

// files opens the files of a box. The caller calls done.
func (i Inside) files(ctx context.Context, ref api.BoxRef, user, name string, progress agentbox.Progress) (f *environment.Files, at string, done func(), err error) {
	if name == "" {
		return nil, "", nil, agentbox.Errorf(agentbox.Invalid, "no path given")
	}
	c, client, err := i.open(ctx, ref, user, progress)
	if err != nil {
		return nil, "", nil, err
	}
	f, err = environment.OpenFiles(ctx, client, "")
	if err != nil {
		client.Close()
		return nil, "", nil, err
	}
	return f, inWorkspace(c, name), func() { f.Close(); client.Close() }, nil
}

func (i Inside) read(ctx context.Context, req api.FileRead, progress agentbox.Progress) (part api.FilePart, err error) {
	limit := req.Limit
	if limit == 0 {
		limit = api.MaxFilePart
	}
	if limit < 0 || limit > api.MaxFilePart || req.Offset < 0 {
		return part, agentbox.Errorf(agentbox.Invalid, "a part of a file has at most %d bytes, and begins at 0 or later", api.MaxFilePart)
	}
	f, name, done, err := i.files(ctx, req.BoxRef, req.User, req.Path, progress)
	if err != nil {
		return part, err
	}
	defer done()
	part.Content, part.Size, err = f.ReadPart(name, req.Offset, limit)
	return part, err
}

func (i Inside) write(ctx context.Context, req api.FileWrite, progress agentbox.Progress) (none api.None, err error) {
	if len(req.Content) > api.MaxFilePart {
		return none, agentbox.Errorf(agentbox.Invalid, "%d bytes are too many for one call, which takes %d", len(req.Content), api.MaxFilePart).
			WithHint("agentbox cp copies files of any size")
	}
	f, name, done, err := i.files(ctx, req.BoxRef, req.User, req.Path, progress)
	if err != nil {
		return none, err
	}
	defer done()
	return none, f.WriteWhole(name, bytes.NewReader(req.Content), fs.FileMode(req.Mode).Perm())
}
