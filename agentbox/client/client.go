package client

import (
	"context"
	"io"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// Client makes calls with one token. Several goroutines may use it at once.
type Client struct{ api *api.Client }

// New returns a client of the server at a URL, such as http://127.0.0.1:7070. It connects on its
// first call.
func New(url, token string) *Client { return Of(api.NewClientOf(url, token)) }

// Of returns a client that calls through another one.
func Of(c *api.Client) *Client { return &Client{c} }

// Close closes idle connections. Calls in progress go on.
func (c *Client) Close() { c.api.Close() }

// Call makes any public call. progress may be nil.
func Call[Req, Resp any](ctx context.Context, c *Client, e api.Endpoint[Req, Resp], req Req, progress agentbox.Progress) (Resp, error) {
	return api.Call(ctx, c.api, e, req, progress)
}

// Read makes a call that answers with bytes, and writes them to w until it ends.
func Read[Req any](ctx context.Context, c *Client, d api.Download[Req], req Req, w io.Writer) error {
	return api.Read(ctx, c.api, d, req, w)
}

func ref(box string) api.BoxRef { return api.BoxRef{Box: box} }

// Up makes or finds the box of a checkout on the server's machine, and makes sure that it runs.
func (c *Client) Up(ctx context.Context, req api.UpRequest, progress agentbox.Progress) (agentbox.Box, error) {
	up, err := Call(ctx, c, api.Up, req, progress)
	return up.Box, err
}

// Boxes returns all boxes, oldest first.
func (c *Client) Boxes(ctx context.Context) ([]agentbox.Box, error) {
	return Call(ctx, c, api.ListBoxes, api.ListRequest{}, nil)
}

// Box returns one box.
func (c *Client) Box(ctx context.Context, box string) (agentbox.Box, error) {
	return Call(ctx, c, api.ShowBox, ref(box), nil)
}

// Run runs a command in a box to its end.
func (c *Client) Run(ctx context.Context, req api.RunRequest) (api.RunResult, error) {
	return Call(ctx, c, api.RunInBox, req, nil)
}

// Shell runs a line of sh in a box to its end.
func (c *Client) Shell(ctx context.Context, box, line string) (api.RunResult, error) {
	return c.Run(ctx, api.RunRequest{BoxRef: ref(box), Script: line})
}

// ReadFile returns a file of a box. It is Conflict for one of more than limit bytes.
func (c *Client) ReadFile(ctx context.Context, box, path string, limit int64) ([]byte, error) {
	var all []byte
	for {
		part, err := Call(ctx, c, api.ReadFile, api.FileRead{BoxRef: ref(box), Path: path, Offset: int64(len(all))}, nil)
		if err != nil {
			return nil, err
		}
		if part.Size > limit {
			return nil, agentbox.Errorf(agentbox.Conflict, "%s has %d bytes, more than %d", path, part.Size, limit)
		}
		if all = append(all, part.Content...); len(part.Content) == 0 || int64(len(all)) >= part.Size {
			return all, nil
		}
	}
}

// WriteFile replaces a file of a box as a whole, or makes it with the directories above it. It takes
// api.MaxFilePart bytes at most.
func (c *Client) WriteFile(ctx context.Context, box, path string, content []byte) error {
	_, err := Call(ctx, c, api.WriteFile, api.FileWrite{BoxRef: ref(box), Path: path, Content: content}, nil)
	return err
}

// Fork copies a box with its memory and workspace. The original goes on.
func (c *Client) Fork(ctx context.Context, box, name string) (agentbox.Box, error) {
	return Call(ctx, c, api.Fork, api.ForkRequest{BoxRef: ref(box), Name: name}, nil)
}

// Checkpoint saves a box, to return to by Rollback.
func (c *Client) Checkpoint(ctx context.Context, box, name string) (agentbox.Checkpoint, error) {
	return Call(ctx, c, api.Checkpoint, api.CheckpointRequest{BoxRef: ref(box), Name: name}, nil)
}

// Rollback returns a box to a checkpoint, "" for the latest. What was done since is lost.
func (c *Client) Rollback(ctx context.Context, box, checkpoint string) (agentbox.Box, error) {
	return Call(ctx, c, api.Rollback, api.RollbackRequest{BoxRef: ref(box), Checkpoint: checkpoint}, nil)
}

// Remove removes a box with its workspace, even if work is lost (api.Unsaved tells).
func (c *Client) Remove(ctx context.Context, box string) error {
	_, err := Call(ctx, c, api.Remove, ref(box), nil)
	return err
}

// Diff returns what changed in a box or a task since it began.
func (c *Client) Diff(ctx context.Context, boxOrTask string) (api.WorkDiff, error) {
	return Call(ctx, c, api.Diff, api.DiffRequest{BoxRef: ref(boxOrTask)}, nil)
}

// Submit queues a task in a checkout on the server's machine.
func (c *Client) Submit(ctx context.Context, directory string, command ...string) (agentbox.Task, error) {
	req := api.TaskSubmission{Spec: agentbox.TaskSpec{Directory: directory}, Commands: [][]string{command}}
	all, err := Call(ctx, c, api.SubmitTasks, req, nil)
	if err != nil || len(all) != 1 {
		return agentbox.Task{}, err
	}
	return all[0], nil
}

// Wait returns a task when it has ended.
func (c *Client) Wait(ctx context.Context, task string) (agentbox.Task, error) {
	return Call(ctx, c, api.WaitTask, api.TaskRef{Task: task}, nil)
}

// TaskLog writes what the last attempt of a task wrote, once that has ended.
func (c *Client) TaskLog(ctx context.Context, task string, w io.Writer) error {
	return Read(ctx, c, api.TaskLog, api.TaskLogRequest{TaskRef: api.TaskRef{Task: task}}, w)
}
