package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/background"
	"agentbox/agentbox/job"
)

// run is one attempt while it is followed. One goroutine follows it; startGathering starts another
// beside it.
type run struct {
	q   *Queue
	rec record
	agentbox.Attempt
	dir      string
	timeline *timeline
	watch    *watch
}

// runAttempt follows a task's current attempt to its end, and begins one if there is none. When ctx
// ends it leaves everything as it is, and the next queue goes on. The order matters: the evidence
// is gathered before there is another machine, the work is kept before the result is written, and
// the result is written before the box is removed. So the next daemon can go on wherever this one
// was killed.
func (q *Queue) runAttempt(ctx context.Context, rec record) {
	r, err := q.open(ctx, rec)
	if err != nil {
		q.Log.Error("cannot begin a task", "task", rec.ID, "error", err)
		q.watch(rec.ID).begin(err)
		background.Sleep(ctx, scanEvery) // the queue tries again
		return
	}
	if rec.Where != "" {
		r.runElsewhere(ctx)
		return
	}
	result, box, err := r.runJob(ctx)
	if ctx.Err() != nil {
		return
	}
	if q.Store.cancellation(rec.ID).Returned {
		r.giveUp(ctx, box)
		return
	}
	r.watch.begin(err)
	if err != nil {
		e := agentbox.AsError(err)
		result = agentbox.Result{State: agentbox.TaskFailed, Reason: e.Message, End: e.End}
	}
	if box != nil {
		evidence := r.startGathering(ctx, *box)
		if result.Exit == nil {
			evidence() // about a machine that has gone, before there is another
		}
		work := r.keepWork(ctx, *box, &result, evidence)
		evidence().copyTo(&result)
		r.blamePolicy(&result)
		r.collect(ctx, *box, work, &result)
		r.check(ctx, work, &result)
		r.stopKeptBox(ctx, result)
	}
	drop := r.settleSaved(ctx, &result, r.box(ctx) == nil)
	if ctx.Err() != nil {
		return
	}
	result.Ended = time.Now().UTC()
	r.timeline.add("ended", strings.TrimSuffix(string(result.State)+": "+result.Reason, ": "))
	if !r.finish(ctx, result) {
		return
	}
	drop()
	q.ended(rec.ID, r.Number)
	if box != nil && result.Box == "" {
		r.watch.setRemoving(r.BoxName)
		q.announce()
		q.remove(ctx, *box)
	}
}

// runElsewhere has another machine run the attempt.
func (r *run) runElsewhere(ctx context.Context) {
	t, err := r.q.Store.Read(r.rec.ID)
	result := agentbox.Result{State: agentbox.TaskFailed, Reason: "there is no team here"}
	if err == nil && r.q.Remote != nil {
		result, err = r.q.Remote.Run(ctx, t, r.Attempt, r.rec.Need, r.dir, r.watch.cancelled.Done())
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		result = agentbox.Result{State: agentbox.TaskFailed, Reason: agentbox.AsError(err).Message}
	}
	if r.q.Store.cancelled(r.rec.ID) {
		result.State, result.Limit = r.cancelledResult().State, r.cancelledResult().Limit
	}
	r.blamePolicy(&result)
	drop := r.settleSaved(ctx, &result, true)
	result.Ended = time.Now().UTC()
	r.timeline.add("ended", strings.TrimSuffix(string(result.State)+": "+result.Reason, ": "))
	r.watch.begin(nil)
	if r.finish(ctx, result) {
		drop()
		r.q.ended(r.rec.ID, r.Number)
	}
}

// finish records the result, when the disk has room for it. It is false if ctx ends before.
func (r *run) finish(ctx context.Context, result agentbox.Result) bool {
	for tried := false; ; tried = true {
		err := r.q.Store.finish(r.rec.ID, r.Number, result)
		if err == nil || tried && r.q.Store.finished(r.rec.ID, r.Number) {
			return true
		}
		if !tried {
			r.q.Log.Error("cannot record how a task ended, and tries again", "task", r.rec.ID, "error", err)
		}
		if !background.Sleep(ctx, scanEvery) {
			return false
		}
	}
}

func (q *Queue) ended(id agentbox.TaskID, attempt int) {
	if q.Ended != nil {
		q.Ended(id, attempt)
	}
}

// blamePolicy gives a failure the cause that the agent was denied one of its own hosts. Of that the
// agent's own words say something else, if anything: that the network does not work.
func (r *run) blamePolicy(result *agentbox.Result) {
	if result.State != agentbox.TaskFailed && result.State != agentbox.TaskLimited {
		return
	}
	for _, d := range result.Denied {
		if d.Host != "" && agentbox.NamesHost(r.rec.AgentHosts, d.Host) {
			if result.Cause = agentbox.CausePolicy; result.State == agentbox.TaskFailed {
				result.Reason = fmt.Sprintf("the policy denied %s, which %s needs: %s", d.Host, r.rec.Agent, d.Reason)
			}
			return
		}
	}
}

// open finds the attempt that has no result, or records the next one. The record is on disk before
// anything is made for the attempt.
func (q *Queue) open(ctx context.Context, rec record) (*run, error) {
	attempts, err := q.Store.attempts(rec.ID)
	if err != nil {
		return nil, err
	}
	n := len(attempts)
	if n == 0 || attempts[n-1].Result != nil {
		n++
		attempts = append(attempts, agentbox.Attempt{
			Number: n, BoxName: fmt.Sprintf("%s-%d", rec.ID, n), Job: agentbox.NewJobID(), Started: time.Now().UTC(),
		})
		attempts[n-1].Continue = rec.Continue
		err := write(filepath.Join(q.Store.Attempt(rec.ID, n), attemptFile), attempts[n-1])
		q.Store.Memory.forget(rec.ID)
		if err != nil {
			return nil, err
		}
	}
	dir := q.Store.Attempt(rec.ID, n)
	r := &run{q: q, rec: rec, Attempt: attempts[n-1], dir: dir, timeline: &timeline{filepath.Join(dir, timelineFile)}, watch: q.watch(rec.ID)}
	if q.Store.cancelled(rec.ID) {
		r.watch.cancel()
	}
	return r, nil
}

// runJob makes the box and starts the job, unless that is done, and waits for the job's end. It
// returns the box if there is one, with or without an error. The result is set if the error is nil.
func (r *run) runJob(ctx context.Context) (agentbox.Result, *agentbox.Box, error) {
	if r.q.Store.cancelled(r.rec.ID) && r.box(ctx) == nil {
		return agentbox.Result{State: agentbox.TaskCancelled}, nil, nil
	}
	box, refused, err := r.start(ctx)
	switch {
	case err != nil && r.q.Store.cancelled(r.rec.ID):
		if !r.hasJob(ctx) {
			return r.cancelledResult(), r.box(ctx), nil
		}
		box, err = r.box(ctx), nil // the job may have begun, and is ended like any other
	case err != nil && box == nil:
		return agentbox.Result{}, r.box(ctx), err
	}
	if err != nil || refused != nil {
		if refused != nil {
			return agentbox.Result{State: agentbox.TaskFailed, Exit: &refused.Status, Reason: refused.Reason}, box, nil
		}
		if now := r.box(ctx); now != nil && !now.Limited().IsZero() {
			return limitedResult(now.Limited()), box, nil
		}
		return agentbox.Result{}, box, err
	}
	result, err := r.await(ctx)
	return result, box, err
}

// start makes the box and starts the job, unless that is done. It gives up when the task is
// cancelled meanwhile: making an image may take minutes, and a box may never be ready to run
// anything. refused is why the box could not run the command, which is the task's result and no
// error.
func (r *run) start(ctx context.Context) (box *agentbox.Box, refused *api.JobRefusal, err error) {
	if r.hasJob(ctx) {
		return r.box(ctx), nil, nil
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(r.watch.cancelled, stop)()
	if box, err = r.ensureBox(ctx); err == nil {
		refused, err = r.ensureJob(ctx)
	}
	return box, refused, err
}

// hasJob tells whether the attempt's job was started, or was about to be: its record is written
// before the guest is asked.
func (r *run) hasJob(ctx context.Context) bool {
	_, err := r.q.Jobs.Show(ctx, r.BoxName, r.Job)
	return err == nil
}

// cancelledResult is the result of a task that was cancelled before its command ended. A limit that
// the holder enforces cancels by End, and is the result then.
func (r *run) cancelledResult() agentbox.Result {
	if why := r.q.Store.cancellation(r.rec.ID); !why.Limit.IsZero() {
		return limitedResult(why.Limit)
	}
	return agentbox.Result{State: agentbox.TaskCancelled}
}

func (r *run) ref() api.BoxRef { return api.BoxRef{Box: r.BoxName} }

// box is the attempt's box, or nil.
func (r *run) box(ctx context.Context) *agentbox.Box {
	b, err := r.q.Boxes.Find(ctx, r.ref())
	if err != nil {
		return nil
	}
	return &b
}

// ensureBox finds the attempt's box by its name, or makes it. Names contain the task's ID, so a box
// of that name is the attempt's.
func (r *run) ensureBox(ctx context.Context) (*agentbox.Box, error) {
	if b := r.box(ctx); b != nil {
		return b, nil
	}
	begun := time.Now()
	resp, err := r.q.Boxes.Up(ctx, r.upRequest(), r.watch.report)
	if err != nil {
		return nil, err
	}
	r.timeline.addTimed("box", resp.Box.Name+" of "+string(resp.Box.Isolation), time.Since(begun))
	return &resp.Box, nil
}

// ensureJob starts the attempt's job once. The job has an ID before it has a box, and Jobs.Start
// does nothing for an ID that was started before, so it is safe after a crash in between.
func (r *run) ensureJob(ctx context.Context) (*api.JobRefusal, error) {
	if r.hasJob(ctx) {
		return nil, nil
	}
	spec := agentbox.JobSpec{ID: r.Job, Expect: r.rec.Foreground}
	spec.Argv, spec.Dir, spec.Env, spec.User, spec.Input = r.rec.Command, r.rec.Dir, r.env(), r.rec.User, r.rec.Input
	spec.TTY, spec.Term, spec.Columns, spec.Rows = r.rec.TTY, cmp.Or(r.rec.Term, "xterm-256color"), cmp.Or(r.rec.Columns, 120), cmp.Or(r.rec.Rows, 40)
	started, err := r.q.Jobs.Start(ctx, api.JobStart{BoxRef: api.BoxRef{Box: r.BoxName, Directory: r.rec.Directory}, Spec: spec})
	if err == nil && started.Refused == nil {
		r.timeline.add("command", strings.TrimSuffix(r.Job.String()+", goes on from "+continuedText(r.Continue), ", goes on from "))
		r.watch.begin(nil)
	}
	return started.Refused, err
}

// env is the command's environment, with the task's ID. A variable of the task's own takes
// precedence.
func (r *run) env() map[string]string {
	env := map[string]string{"AGENTBOX_TASK": r.rec.ID.String()}
	maps.Copy(env, r.rec.Env)
	return env
}

// await waits for the job's end, and ends the job if the task is cancelled. The only error is
// ctx's: a box or a supervisor that does not answer is asked again.
func (r *run) await(ctx context.Context) (agentbox.Result, error) {
	defer r.keepSaving(ctx)()
	var asked time.Time // when the job was first told to end
	for told := false; ; {
		info, err := r.q.Jobs.Show(ctx, r.BoxName, r.Job)
		switch {
		case ctx.Err() != nil:
			return agentbox.Result{}, ctx.Err()
		case agentbox.CodeOf(err) == agentbox.NotFound:
			return agentbox.Result{State: agentbox.TaskLost, Reason: "its box was removed"}, nil
		case err == nil && (info.Job.State == agentbox.JobEnded || info.Job.State == agentbox.JobLost):
			result := r.jobResult(ctx, info)
			if r.rec.Foreground && info.Job.State == agentbox.JobEnded {
				r.awaitEnd(ctx, asked) // its output is on its way to who holds it, or will be
			}
			return result, nil
		case err == nil && info.Job.State == agentbox.JobPaused && r.pausedAtLimit(ctx):
			return r.jobResult(ctx, info), nil
		}
		if r.q.Store.cancelled(r.rec.ID) {
			if r.q.Store.cancellation(r.rec.ID).Returned {
				return r.cancelledResult(), nil
			}
			asked = r.terminate(ctx, asked)
		}
		// Its box is paused or just ending, or its supervisor is of an earlier build.
		if told && !background.Sleep(ctx, retryEvery) {
			return agentbox.Result{}, ctx.Err()
		}
		told = r.awaitEnd(ctx, asked)
	}
}

// retryEvery is how often a job is looked at whose supervisor cannot tell when it ends.
const retryEvery = time.Second

// awaitEnd waits for the job's end, and returns whether its supervisor told it, or could not. It is
// false if the task was cancelled meanwhile, or a job that was told to end has had its time.
func (r *run) awaitEnd(ctx context.Context, asked time.Time) bool {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	if asked.IsZero() {
		defer context.AfterFunc(r.watch.cancelled, stop)()
	} else {
		defer time.AfterFunc(cancelGrace, stop).Stop()
	}
	_ = r.q.Jobs.AwaitEnd(waiting, r.BoxName, r.Job) // whether it ended is looked at, not concluded
	return waiting.Err() == nil
}

// pausedAtLimit tells whether the box was paused at a limit. Boxes that a person may come back to
// are; nobody comes back to a task's.
func (r *run) pausedAtLimit(ctx context.Context) bool {
	box := r.box(ctx)
	return box != nil && box.State == agentbox.Paused && !box.Limited().IsZero()
}

// cancelGrace is how long a job may go on after SIGTERM, and again after SIGKILL, before its
// machine is ended.
const cancelGrace = 5 * time.Second

// terminate tells the job to end: by SIGTERM, later by SIGKILL, then by stopping its box. asked is
// when it was first told, zero for not yet; terminate returns that time, to be passed again.
func (r *run) terminate(ctx context.Context, asked time.Time) time.Time {
	signal := "TERM"
	switch waited := time.Since(asked); {
	case asked.IsZero():
		asked = time.Now()
		why := r.q.Store.cancellation(r.rec.ID)
		r.timeline.add("cancelled", why.Limit.String())
		if !why.Limit.IsZero() { // as every limit, it does not ask
			signal = "KILL"
		}
	case waited >= 2*cancelGrace:
		if err := r.q.Boxes.Stop(ctx, r.ref()); err != nil {
			r.q.Log.Warn("cannot stop the box of a cancelled task", "task", r.rec.ID, "error", err)
		}
		return asked
	case waited >= cancelGrace:
		signal = "KILL"
	default:
		return asked
	}
	_ = r.q.Jobs.Signal(ctx, api.JobSignal{ID: r.Job, Signal: signal}) // whether it ended is looked at, not concluded
	return asked
}

// jobResult is the result of a job that has ended. In order of precedence: the task was cancelled,
// its box reached a limit, the command ended with a status. The transcript is copied into the
// attempt, as the job's own goes with its box.
func (r *run) jobResult(ctx context.Context, info JobFiles) agentbox.Result {
	var result agentbox.Result
	if info.Job.Exit != nil {
		r.timeline.append(TimelineEvent{info.Job.Ended.UTC(), "exit", exitText(info.Job), info.Job.Ended.Sub(info.Job.Started)})
	}
	box := r.box(ctx)
	switch {
	case r.q.Store.cancelled(r.rec.ID):
		result = r.cancelledResult()
	case box != nil && !box.Limited().IsZero():
		result = limitedResult(box.Limited())
	case info.Job.Exit == nil:
		result.State, result.Reason = agentbox.TaskLost, "its machine ended under it"
		if box != nil {
			result.End = box.Ended
		}
	case *info.Job.Exit == 0:
		result.State = agentbox.TaskSucceeded
	default:
		result.State, result.Reason = agentbox.TaskFailed, fmt.Sprintf("exit code %d", *info.Job.Exit)
	}
	if result.Omitted = info.Job.Omitted; result.Limit.IsZero() { // what a limit ended has no status of its own
		result.Exit = info.Job.Exit
	}
	if err := r.keepTranscript(info.Dir); err != nil {
		r.q.Log.Warn("cannot keep what a task wrote", "task", r.rec.ID, "error", err)
	}
	return result
}

// exitText describes for the timeline how a command ended. j.Exit is set.
func exitText(j agentbox.Job) string {
	if j.Signal != "" {
		return "SIG" + j.Signal
	}
	return fmt.Sprintf("code %d", *j.Exit)
}

// keepTranscript copies the job's transcript as one asciicast file, and replaces an earlier copy.
// It waits for the disk, because the box with the original is removed next.
func (r *run) keepTranscript(dir string) error {
	path := filepath.Join(r.dir, transcriptFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(job.OpenTranscript(dir).WriteCast(context.Background(), f), f.Sync(), f.Close())
}

// limitedResult is the result of a task that a limit ended.
func limitedResult(l agentbox.Limit) agentbox.Result {
	return agentbox.Result{State: agentbox.TaskLimited, Limit: l, Reason: l.String()}
}
