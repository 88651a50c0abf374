package job

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/environment"
	"agentbox/vmm/guest/protocol"
)

// Config is what a Hub needs. All fields must be set; Backend, OnBegin and OnOutput are called from
// many goroutines at once.
type Config struct {
	Dir      string              // of the box's jobs; created with the first one
	Backend  environment.Backend // connects to the guest
	Log      *slog.Logger
	OnBegin  func() (end func()) // called when a job begins to run; end when it has ended
	OnOutput func()              // called when a job has written something
}

// Hub has the jobs of a running box. Its methods are safe for concurrent use. Each job that it
// follows has a goroutine, which ends with the job or the hub.
type Hub struct {
	Config
	ctx  context.Context
	work background.Group            // goroutines that start and follow jobs; closed by Wait
	sync func(paths ...string) error // durable.Sync

	ready    chan struct{} // closed by Adopt
	starting sync.Mutex    // held while a job is started

	// mu guards jobs: those that run, and those that have ended in this life and are not removed yet.
	// It is held for moments only.
	mu   sync.Mutex
	jobs map[agentbox.JobID]*followedJob
}

// NewHub makes a hub. When ctx ends it stops following its jobs: they end with their machine, or
// the next hub adopts them. The caller calls Adopt, for which all other methods wait, and Wait.
func NewHub(ctx context.Context, c Config) *Hub {
	return &Hub{Config: c, ctx: ctx, sync: durable.Sync, jobs: map[agentbox.JobID]*followedJob{}, ready: make(chan struct{})}
}

// Wait returns when ctx has ended and the hub follows no job any more, for which the connection to
// the guest must end. It is called once.
func (h *Hub) Wait() {
	<-h.ctx.Done()
	h.work.Close()
}

// Refusal is why the box could not start a job. It is an error of neither the host nor the box.
type Refusal = protocol.JobRefusal

// Start starts a job and returns when the guest has started it. A Refusal is no error. The record
// is written before the guest is asked, so that a crash in between leaves a job that the next hub
// finds lost or running, never one that it does not know. The job may run even after an error:
// calling again with the same ID is safe, and starts it only if it was not started before.
//
// Once begun, a start does not end with ctx, which is the caller's: when a daemon is killed its
// call ends, and the next daemon finds the record and waits for the job.
func (h *Hub) Start(ctx context.Context, spec agentbox.JobSpec) (*Refusal, error) {
	if err := h.awaitReady(ctx); err != nil {
		return nil, err
	}
	type outcome struct {
		refusal *Refusal
		err     error
	}
	done := make(chan outcome, 1)
	begun := h.work.Go(func() {
		// Two clients that start the same ID meet here, and the second finds the first one's job.
		h.starting.Lock()
		defer h.starting.Unlock()
		o := outcome{err: ctx.Err()}
		if o.err == nil {
			o.refusal, o.err = h.start(spec)
		}
		done <- o
	})
	if !begun {
		return nil, agentbox.Errorf(agentbox.Unavailable, "the box's machine is ending")
	}
	select {
	case o := <-done:
		return o.refusal, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// start is Start for one job at a time. It ends with the hub.
func (h *Hub) start(spec agentbox.JobSpec) (*Refusal, error) {
	if h.job(spec.ID) != nil {
		return nil, nil
	}
	dir := Dir(h.Dir, spec.ID)
	// It was started before, in an earlier life even, and has ended.
	if end, err := readEnd(dir); end != nil || err != nil {
		return nil, err
	}
	h.removeOldest()
	rec := Record{version, agentbox.JobStart{ID: spec.ID, Command: spec.Argv, Dir: spec.Dir, User: spec.User, TTY: spec.TTY, Started: time.Now().UTC()}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := writeJSON(filepath.Join(dir, recordFile), rec); err != nil {
		return nil, err
	}
	// The expected client is added before there is any output, so it misses none.
	j := h.newFollowedJob(rec, spec.Columns, spec.Rows)
	if spec.Expect {
		j.expect()
	}
	ch, requests, err := j.open(h.ctx, &spec.JobSpec)
	// Nothing has run, so no record stays.
	if refusal := refusalOf(err); refusal != nil {
		return refusal, os.RemoveAll(dir)
	}
	if agentbox.CodeOf(err) == agentbox.Invalid {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		return nil, h.resolveFailedStart(j, err)
	}
	h.register(j)
	h.work.Go(func() { j.follow(ch, requests) })
	return nil, nil
}

// resolveFailedStart asks the guest what happened to a job whose start failed with err: the guest
// may have started it before the connection broke. If the guest does not have the job, it is
// recorded as lost, so that no task waits for it. If the guest does not answer, its machine is
// ending, and the next hub finds out.
func (h *Hub) resolveFailedStart(j *followedJob, err error) error {
	there, askErr := h.guestJobs(h.ctx)
	if askErr != nil {
		return err
	}
	if _, runs := there[j.rec.ID]; !runs {
		h.recordLost(j.rec.ID)
		return err
	}
	h.register(j)
	h.work.Go(func() { j.follow(nil, nil) })
	return nil
}

// awaitReady waits until the machine's jobs are known. The error is ctx's.
func (h *Hub) awaitReady(ctx context.Context) error {
	select {
	case <-h.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// job returns a job of this hub, or nil.
func (h *Hub) job(id agentbox.JobID) *followedJob {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.jobs[id]
}

// started is job for clients: it waits for one that is being started, which lists show already.
func (h *Hub) started(ctx context.Context, id agentbox.JobID) *followedJob {
	if j := h.job(id); j != nil {
		return j
	}
	got := make(chan *followedJob, 1)
	go func() { // ends with the start, at the latest when the hub does
		h.starting.Lock()
		defer h.starting.Unlock()
		got <- h.job(id)
	}()
	select {
	case j := <-got:
		return j
	case <-ctx.Done():
		return nil
	}
}

// register registers a job, so that clients find it.
func (h *Hub) register(j *followedJob) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.jobs[j.rec.ID] = j
}

// refusalOf returns the guest's refusal, or nil if err is none. The guest's text is made printable,
// and an invalid status becomes 126, a shell's status for a command that cannot be run.
func refusalOf(err error) *Refusal {
	var refused *ssh.OpenChannelError
	if !errors.As(err, &refused) {
		return nil
	}
	r := Refusal{Status: 126, Error: "the box refused to run it"}
	if json.Unmarshal([]byte(refused.Message), &r) == nil {
		r.Error = printable(r.Error)
	}
	if r.Status < 0 || r.Status > 255 { // a parent would see 256 as 0
		r.Status = 126
	}
	return &r
}

// Adopt follows the jobs that the machine had when it was saved, and records that all others are
// lost. saved is false for a machine that was started afresh: then all are. It is called once, and
// returns when every job is known. The error means that the guest did not answer; a job that cannot
// be adopted is logged and skipped.
func (h *Hub) Adopt(ctx context.Context, saved bool) error {
	defer close(h.ready)
	there := map[agentbox.JobID]protocol.JobStatus{}
	if saved {
		var err error
		if there, err = h.guestJobs(ctx); err != nil {
			return err
		}
	}
	// A job that this host recorded and the guest does not know was lost with its machine.
	for _, id := range ids(h.Dir) {
		if _, known := there[id]; !known {
			h.recordLost(id)
		}
	}
	// The others run, in this machine or in the one that this one is a fork of.
	for id, status := range there {
		j, err := h.adopt(id, status)
		if err != nil {
			h.Log.Warn("cannot adopt a job", "job", id, "error", err)
			continue
		}
		h.register(j)
		h.work.Go(func() { j.follow(nil, nil) })
	}
	return nil
}

// guestJobs asks the guest for its jobs. It ignores invalid ids, and all jobs beyond maxAdopted.
func (h *Hub) guestJobs(ctx context.Context) (map[agentbox.JobID]protocol.JobStatus, error) {
	client, err := h.Backend(ctx)
	if err != nil {
		return nil, err
	}
	ok, answer, err := client.SendRequest(protocol.Jobs, true, []byte("{}"))
	var list []protocol.JobStatus
	if err == nil && ok {
		err = json.Unmarshal(answer, &list)
	}
	if err == nil && !ok {
		err = errors.New("it refuses to list them")
	}
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Unavailable, "ask the guest for its jobs: %w", err)
	}
	there := map[agentbox.JobID]protocol.JobStatus{}
	for _, s := range list {
		if id, err := agentbox.ParseJobID(s.ID); err == nil && len(there) < maxAdopted {
			there[id] = s
		}
	}
	return there, nil
}

// adopt makes the followedJob of a job that the guest has. What the guest says of it counts only if
// there is no record: the jobs of a fork have none.
func (h *Hub) adopt(id agentbox.JobID, status protocol.JobStatus) (*followedJob, error) {
	dir := Dir(h.Dir, id)
	rec, err := readRecord(dir)
	if errors.Is(err, fs.ErrNotExist) {
		rec = Record{version, agentbox.JobStart{ID: id, Command: printables(status.Argv), Dir: printable(status.Dir), User: printable(status.User), TTY: status.TTY, Started: time.Now().UTC()}}
		if err = os.MkdirAll(dir, 0o700); err == nil {
			err = writeJSON(filepath.Join(dir, recordFile), rec)
		}
	}
	if err != nil {
		return nil, err
	}
	// After a rollback to where it ran it has not ended.
	if err := os.Remove(filepath.Join(dir, EndFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	j := h.newFollowedJob(rec, 80, 24)
	return j, j.recorder.resume()
}

// maxAdopted bounds how many jobs a guest can make the hub follow. The guest is not trusted, and
// each job costs a directory and a goroutine here.
const maxAdopted = 64

// recordLost records that a job was lost with its machine, unless it had ended.
func (h *Hub) recordLost(id agentbox.JobID) {
	dir := Dir(h.Dir, id)
	if end, err := readEnd(dir); end != nil || err != nil {
		return
	}
	if err := writeJSON(filepath.Join(dir, EndFile), End{Lost: true, Time: time.Now().UTC()}); err != nil {
		h.Log.Error("cannot record that a job is lost", "job", id, "error", err)
	}
}

// AwaitEnd returns when a job has ended, its files say how, and a client that was expected has its output
// (awaitServed). It returns at once for a job that does not run. The error is ctx's, or Unavailable if
// the hub ends first.
func (h *Hub) AwaitEnd(ctx context.Context, id agentbox.JobID) error {
	if err := h.awaitReady(ctx); err != nil {
		return err
	}
	j := h.job(id)
	if j == nil {
		return nil
	}
	select {
	case <-j.ended:
		j.awaitServed(ctx)
		return nil
	case <-h.ctx.Done():
		return agentbox.Errorf(agentbox.Unavailable, "the box's machine is ending")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Signal sends a signal, as RFC 4254 names it, to a running job. The error is NotFound for a job
// that does not run, Invalid for an unknown signal, Conflict while the guest is away and
// Unavailable if it does not answer.
func (h *Hub) Signal(ctx context.Context, id agentbox.JobID, name string) error {
	if err := h.awaitReady(ctx); err != nil {
		return err
	}
	j := h.started(ctx, id)
	if j == nil {
		return agentbox.Errorf(agentbox.NotFound, "job %s does not run", id).WithHint("agentbox jobs lists them")
	}
	return j.signal(ctx, name)
}

// maxEnded is how many ended jobs a box keeps. Tasks keep what they need of theirs.
const maxEnded = 50

// removeOldest removes the oldest jobs that have ended, if there are more than maxEnded.
func (h *Hub) removeOldest() {
	// Listed as those of a running box, so that a job without an end counts as running and is kept.
	ended := slices.DeleteFunc(List(h.Dir, agentbox.Box{State: agentbox.Running}), func(j agentbox.Job) bool { return j.State == agentbox.JobRunning })
	for _, j := range ended[:max(len(ended)-maxEnded, 0)] {
		h.mu.Lock()
		delete(h.jobs, j.ID)
		h.mu.Unlock()
		if err := os.RemoveAll(Dir(h.Dir, j.ID)); err != nil {
			h.Log.Warn("cannot remove an old job", "job", j.ID, "error", err)
		}
	}
}

// printables makes the first 64 words of a guest's command printable.
func printables(words []string) []string {
	var out []string
	for _, w := range words[:min(len(words), 64)] {
		out = append(out, printable(w))
	}
	return out
}

// printable makes the first 400 bytes of a guest's text safe for a terminal.
func printable(s string) string { return agentbox.Printable(s[:min(len(s), 400)]) }
