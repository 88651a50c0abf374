package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/job"
	"agentbox/agentbox/kube/oci"
	"agentbox/agentbox/snapshot"
	"agentbox/agentbox/source"
)

// Worker does one Work. The fields are required.
type Worker struct {
	Work
	Workspace, State string
	Out              io.Writer // what the command writes, for kubectl logs
}

// Main is the worker of a pod. It returns the status with which the container ends. When ctx ends, the
// command is ended, and what it left is delivered.
func Main(ctx context.Context) int {
	work, err := Read()
	if err == nil {
		w := Worker{Work: work, Workspace: Workspace, State: State, Out: os.Stdout}
		var r agentbox.Result
		if r, err = w.Do(ctx); err == nil {
			return statusOf(ctx, r)
		}
	}
	fmt.Fprintln(os.Stderr, "agentbox:", agentbox.AsError(err).Message)
	if ctx.Err() != nil {
		return ExitInterrupted
	}
	return exitError
}

// statusOf tells Kubernetes whether to try again: an interrupted command is, wherever its work is.
func statusOf(ctx context.Context, r agentbox.Result) int {
	switch {
	case ctx.Err() != nil:
		return ExitInterrupted
	case r.State == agentbox.TaskSucceeded:
		return 0
	}
	return ExitDelivered
}

// deliverTime is what work and result may take after an interruption, within the pod's grace.
const deliverTime = 45 * time.Second

// Do carries the work out. An error means that nothing was delivered.
func (w Worker) Do(ctx context.Context) (agentbox.Result, error) {
	c, err := w.fetch(ctx)
	if err != nil {
		return agentbox.Result{}, err
	}
	as, err := lookUp(w.User)
	if err != nil {
		return agentbox.Result{}, err
	}
	if err := w.stage(ctx, c, as); err != nil {
		return agentbox.Result{}, err
	}
	cast, err := os.Create(filepath.Join(w.State, "transcript"))
	if err != nil {
		return agentbox.Result{}, err
	}
	defer cast.Close()
	record := job.NewCastWriter(cast, w.Command, maxTranscript)
	result := w.command(ctx, c, as, io.MultiWriter(w.Out, record))
	result.Omitted = record.Omitted()
	delivering, stop := context.WithoutCancel(ctx), func() {}
	if ctx.Err() != nil {
		delivering, stop = context.WithTimeout(delivering, deliverTime)
	}
	defer stop()
	return result, w.deliver(delivering, c, as, cast.Name(), &result)
}

// maxTranscript bounds what is recorded of a command, in bytes.
const maxTranscript = 8 << 20

func (w Worker) fetch(ctx context.Context) (source.Captured, error) {
	store, err := source.OpenStore(filepath.Join(w.State, "sources"))
	if err != nil {
		return source.Captured{}, err
	}
	in, err := oci.Open(ctx, w.Source)
	if err != nil {
		return source.Captured{}, err
	}
	stream, err := in.File(oci.Source)
	if err != nil {
		return source.Captured{}, err
	}
	defer stream.Close()
	c, _, err := store.Import(ctx, stream)
	return c, err
}

func (w Worker) stage(ctx context.Context, c source.Captured, as account) error {
	if _, err := c.Apply(ctx, w.Workspace, 0); err != nil {
		return err
	}
	if err := snapshot.RecordBaseline(ctx, w.Workspace, c.Repo().Commit, w.baseline()); err != nil {
		return err
	}
	return as.own(w.Workspace)
}

func (w Worker) baseline() string { return filepath.Join(w.State, "baseline") }

func (w Worker) command(ctx context.Context, c source.Captured, as account, out io.Writer) agentbox.Result {
	limited, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	over := agentbox.Limit{Kind: agentbox.LimitWall, Time: w.Wall}
	if w.Wall > 0 {
		defer time.AfterFunc(w.Wall, func() { stop(errWall) }).Stop()
	}
	dir := filepath.Join(w.Workspace, filepath.FromSlash(w.Subdir))
	var steps [][]string
	for _, s := range w.Setup {
		steps = append(steps, []string{"sh", "-c", s})
	}
	result := agentbox.Result{State: agentbox.TaskSucceeded}
	for i, argv := range append(steps, w.Command) {
		cmd := environment.Command{Argv: argv, Dir: w.Workspace, Stdout: out, Stderr: out, Env: w.Env}
		if i == len(steps) {
			cmd.Dir = dir
			if w.Dir != "" {
				cmd.Dir = w.Dir
			}
		}
		status, err := as.Exec(limited, cmd)
		result.Exit = &status.Code
		switch {
		case errors.Is(context.Cause(limited), errWall):
			result = agentbox.Result{State: agentbox.TaskLimited, Limit: over, Reason: over.String()}
		case ctx.Err() != nil:
			result = agentbox.Result{State: agentbox.TaskLost, Reason: "its pod was ended while it ran"}
		case err != nil:
			result = agentbox.Result{State: agentbox.TaskFailed, Reason: agentbox.AsError(err).Message}
		case status.Code != 0:
			result.State, result.Reason = agentbox.TaskFailed, fmt.Sprintf("exit code %d", status.Code)
		}
		if result.State != agentbox.TaskSucceeded {
			if i < len(steps) {
				result.Reason = "setup: " + result.Reason
			}
			break
		}
	}
	result.Ended, result.Used = time.Now().UTC(), used()
	return result
}

var errWall = errors.New("the time is over")

func (w Worker) deliver(ctx context.Context, c source.Captured, as account, transcript string, r *agentbox.Result) error {
	mirror := filepath.Join(w.State, "mirror")
	kept, err := snapshot.Keep(ctx, as, snapshot.Request{
		Mirror: mirror, Ref: snapshot.TaskRef(w.Task), Base: c.Repo().Commit, Baseline: w.baseline(), Checkout: c.Repo().Root, Dir: w.Workspace,
	})
	pack := filepath.Join(w.State, "pack")
	err = errors.Join(err, writeTo(pack, func(f io.Writer) error {
		if err != nil || kept.Nothing() {
			return nil
		}
		return snapshot.Send(ctx, kept, f)
	}))
	switch {
	case err != nil:
		r.Notes = append(r.Notes, "its work was not kept: "+agentbox.AsError(err).Message)
	case !kept.Nothing():
		r.Ref, r.Commit, r.Base, r.Commits, r.Files, r.Notes = kept.Ref, kept.Commit, kept.Base, kept.Commits, kept.Files, kept.Notes
	}
	_, err = oci.Put(ctx, w.Result, r, oci.File{Type: oci.Transcript, Path: transcript}, oci.File{Type: oci.Pack, Path: pack})
	return err
}

func writeTo(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
