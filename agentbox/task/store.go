package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/resources"
)

// Store is the directory of all tasks:
//
//	<task>/task.json                       what it is to do; written once
//	<task>/cancelled                       somebody does not want it any more, or it reached a limit
//	<task>/released                        it goes on without its holder
//	<task>/delivered                       its owner, another machine, has its result
//	<task>/attempts/<n>/attempt.json       its box and its job, before either is made
//	<task>/attempts/<n>/result.json        how it ended; written once, when all evidence is there
//	<task>/attempts/<n>/saved.json         the last snapshot of its box while its command runs
//	<task>/attempts/<n>/transcript.cast    what its command wrote
//	<task>/attempts/<n>/timeline.jsonl     what happened
//	removed-<task>/                        a removed task that is being deleted
//
// Its methods may be called at any time, by any process; only the queue writes. Files are replaced
// as a whole.
type Store struct {
	Dir string
	// Memory spares lists from reading what has ended; nil reads everything.
	Memory *Memory
}

const version = 1

// The names of a task's files; Store describes them.
const (
	recordFile     = "task.json"
	cancelFile     = "cancelled"
	releaseFile    = "released"
	deliveredFile  = "delivered"
	attemptFile    = "attempt.json"
	resultFile     = "result.json"
	transcriptFile = "transcript.cast"
	timelineFile   = "timeline.jsonl"
	leaseFile      = "lease.json" // package fleet's, of an attempt elsewhere
	// SavedFile has an attempt's agentbox.SavedWork. Of one elsewhere, package fleet writes it.
	SavedFile = "saved.json"
)

// record is task.json. It never changes, so that a retry and an audit see what was asked.
type record struct {
	Version int             `json:"version"`
	ID      agentbox.TaskID `json:"id"`
	agentbox.TaskSpec
	Batch    agentbox.TaskID `json:"batch"`
	Parallel int             `json:"parallel,omitempty"` // tasks of the batch at once, at most; 0: as the machine has room
	Need     Need            `json:"need"`
	Created  time.Time       `json:"created"`
}

// Need is the share of this machine that a task's box takes.
type Need = resources.Share

func (s Store) task(id agentbox.TaskID) string { return filepath.Join(s.Dir, id.String()) }

// Attempt is the directory of one attempt.
func (s Store) Attempt(id agentbox.TaskID, n int) string {
	return filepath.Join(s.task(id), "attempts", strconv.Itoa(n))
}

// write writes a file that survives a power loss, and creates its directory.
func write(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return errors.Join(durable.WriteFile(path, b, 0o600), durable.SyncDir(filepath.Dir(path)))
}

// read decodes a file. The error is Corrupt for one that does not parse, and fs.ErrNotExist for one
// that does not exist.
func read(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return agentbox.Classify(agentbox.Corrupt, "%s: %w", path, err)
	}
	return nil
}

// Transcript opens what the command of an ended attempt wrote, as an asciicast. The error satisfies
// fs.ErrNotExist if it never ran.
func (s Store) Transcript(id agentbox.TaskID, n int) (*os.File, error) {
	return os.Open(filepath.Join(s.Attempt(id, n), transcriptFile))
}

// record reads task.json.
func (s Store) record(id agentbox.TaskID) (record, error) {
	var r record
	err := read(filepath.Join(s.task(id), recordFile), &r)
	if errors.Is(err, fs.ErrNotExist) {
		return r, errNoTask(id)
	}
	if err == nil && r.Version != version {
		err = agentbox.Errorf(agentbox.Corrupt, "task %s was written by another agentbox: version %d", id, r.Version)
	}
	return r, err
}

func errNoTask(id agentbox.TaskID) error {
	return agentbox.Errorf(agentbox.NotFound, "there is no task %s", id).WithHint("agentbox task ls lists them")
}

// Read reads a task from its files. The error is NotFound if there is none.
func (s Store) Read(id agentbox.TaskID) (agentbox.Task, error) {
	t, _, err := s.readWhole(id)
	return t, err
}

// readWhole is Read that returns the record, too.
func (s Store) readWhole(id agentbox.TaskID) (agentbox.Task, record, error) {
	r, err := s.record(id)
	if err != nil {
		return agentbox.Task{}, r, err
	}
	t := agentbox.Task{ID: id, TaskSpec: r.TaskSpec, Batch: r.Batch, Created: r.Created, Delivered: s.has(id, deliveredFile)}
	if t.Attempts, err = s.attempts(id); err != nil {
		return t, r, err
	}
	for _, a := range t.Attempts {
		if a.Result != nil {
			t.AddUsage(a.Result.Used, a.Result.Cost)
		}
	}
	t.State = s.state(t)
	if !s.has(id, recordFile) { // it was removed meanwhile, and what was found missing was not
		return agentbox.Task{}, r, errNoTask(id)
	}
	return t, r, nil
}

// state derives a task's state from its attempts, and from whether it was cancelled.
func (s Store) state(t agentbox.Task) agentbox.TaskState {
	last := t.Last()
	switch {
	case last != nil && last.Result == nil && t.Where != "" && (last.Worker == "" || last.Kept):
		return agentbox.TaskQueued // until a machine takes it, or as far as is known here
	case last != nil && last.Result == nil:
		return agentbox.TaskRunning
	case last != nil && !mayRetry(t):
		return last.Result.State
	case s.cancelled(t.ID) && !s.cancellation(t.ID).Limit.IsZero():
		return agentbox.TaskLimited // of its batch
	case s.cancelled(t.ID):
		return agentbox.TaskCancelled
	}
	return agentbox.TaskQueued
}

// mayRetry tells whether a task is to be tried once more after its last attempt.
func mayRetry(t agentbox.Task) bool {
	failed := map[string]bool{}
	for _, a := range t.Attempts {
		if a.Worker != "" && a.Result != nil && a.Result.State == agentbox.TaskFailed {
			failed[a.Worker] = true
		}
	}
	if len(failed) >= agentbox.MaxFailedOn {
		return false
	}
	state := t.Last().Result.State
	return (state == agentbox.TaskFailed || state == agentbox.TaskLost) && len(t.Attempts) <= t.Retries
}

// attempts returns the attempts of a task in order. Their numbers have no gaps.
func (s Store) attempts(id agentbox.TaskID) ([]agentbox.Attempt, error) {
	var all []agentbox.Attempt
	for n := 1; ; n++ {
		var a agentbox.Attempt
		err := read(filepath.Join(s.Attempt(id, n), attemptFile), &a)
		if errors.Is(err, fs.ErrNotExist) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		if err := read(filepath.Join(s.Attempt(id, n), resultFile), &a.Result); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return all, err
		}
		var lease struct{ Name, Worker, Keeper string }
		if read(filepath.Join(s.Attempt(id, n), leaseFile), &lease) == nil && (lease.Worker != "" || a.Result != nil) {
			a.Worker = lease.Name // while nobody has it, it has the name of who had it last
			a.Kept = lease.Keeper != "" && lease.Keeper == lease.Worker
		}
		if err := read(filepath.Join(s.Attempt(id, n), SavedFile), &a.Saved); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return all, err
		}
		all = append(all, a)
	}
}

// finish writes the result of an attempt. An attempt has one: a second one is an error.
func (s Store) finish(id agentbox.TaskID, n int, r agentbox.Result) error {
	if s.finished(id, n) {
		return fmt.Errorf("attempt %d of task %s already has a result", n, id)
	}
	return write(filepath.Join(s.Attempt(id, n), resultFile), r)
}

func (s Store) finished(id agentbox.TaskID, n int) bool {
	_, err := os.Lstat(filepath.Join(s.Attempt(id, n), resultFile))
	return err == nil
}

// removedPrefix begins the name of a directory whose task was removed.
const removedPrefix = "removed-"

// remove removes a task. Its directory gets another name first: half of a task's files are those of
// a task that never ran, and a daemon would run it again.
func (s Store) remove(id agentbox.TaskID) error {
	gone := filepath.Join(s.Dir, removedPrefix+id.String())
	if err := os.Rename(s.task(id), gone); err != nil {
		return err
	}
	s.Memory.forget(id)
	return os.RemoveAll(gone)
}

// sweep removes what a remove left that was cut short.
func (s Store) sweep() error {
	left, err := filepath.Glob(filepath.Join(s.Dir, removedPrefix+"*"))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// has tells whether a task has a file.
func (s Store) has(id agentbox.TaskID, file string) bool {
	_, err := os.Lstat(filepath.Join(s.task(id), file))
	return err == nil
}

// cancelled tells whether somebody cancelled a task, or a limit did.
func (s Store) cancelled(id agentbox.TaskID) bool { return s.has(id, cancelFile) }

func (s Store) cancelFile(id agentbox.TaskID) string { return filepath.Join(s.task(id), cancelFile) }

// released tells whether a foreground task goes on without its holder.
func (s Store) released(id agentbox.TaskID) bool { return s.has(id, releaseFile) }

// cancellation is why a task was cancelled.
type cancellation struct {
	Limit agentbox.Limit  `json:"limit,omitzero"` // that it reached; none when somebody cancelled it
	After agentbox.TaskID `json:"after,omitzero"` // the task that it waited for, which did not succeed
	// Returned: this machine gives another one's task back. What was done is saved already, and the box
	// goes at once.
	Returned bool `json:"returned,omitempty"`
}

// cancellation says why a task was cancelled. A file that cannot be read counts as one without a
// limit.
func (s Store) cancellation(id agentbox.TaskID) (c cancellation) {
	_ = read(filepath.Join(s.task(id), cancelFile), &c)
	return c
}

// List returns every task, the oldest first; bad has an error for each that cannot be read.
func (s Store) List() (all []agentbox.Task, bad []error) {
	found, bad := s.list(nil)
	all = make([]agentbox.Task, 0, len(found))
	for _, t := range found {
		all = append(all, valueOf(t))
	}
	return all, bad
}

// OfOthers are the tasks that are here for other machines. One that cannot be read is reported elsewhere.
func (s Store) OfOthers() (all []agentbox.Task) {
	found, _ := s.list(nil)
	for _, t := range found {
		if t.For != nil {
			all = append(all, valueOf(t))
		}
	}
	return all
}

// valueOf copies a task, to whose costs the caller may add.
func valueOf(t *agentbox.Task) agentbox.Task {
	one := *t
	one.Costs = slices.Clone(t.Costs)
	return one
}

// unfinished is List without the tasks in done. It adds to done those that have ended, as they
// never change again, and calls ended for each. The others are shared, and must not be changed.
func (s Store) unfinished(done map[agentbox.TaskID]bool, ended func(agentbox.Task)) (open []*agentbox.Task, bad []error) {
	all, bad := s.list(done)
	open = all[:0]
	for _, t := range all {
		if t.State.Done() {
			done[t.ID] = true
			ended(*t)
		} else {
			open = append(open, t)
		}
	}
	clear(all[len(open):])
	return open, bad
}

// list reads the tasks that are not in done. They are shared, and must not be changed.
func (s Store) list(done map[agentbox.TaskID]bool) (all []*agentbox.Task, bad []error) {
	ids, as, err := s.Memory.entries(s.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, []error{err}
	}
	all = make([]*agentbox.Task, len(ids))
	var unread []int
	for i, id := range ids {
		if done[id] {
			continue
		}
		if all[i] = s.Memory.recall(id); all[i] == nil {
			unread = append(unread, i)
		}
	}
	bad = s.readEach(ids, unread, all)
	all = slices.DeleteFunc(all, func(t *agentbox.Task) bool { return t == nil })
	if older := func(x, y *agentbox.Task) int { return x.Created.Compare(y.Created) }; !slices.IsSortedFunc(all, older) {
		slices.SortStableFunc(all, older)
		s.Memory.sorted(all, as)
	}
	return all, bad
}

// readEach reads some tasks, by their indices, several at a time, unless another list has just done so.
func (s Store) readEach(ids []agentbox.TaskID, which []int, to []*agentbox.Task) (bad []error) {
	if s.Memory != nil && len(which) > 0 {
		s.Memory.reading.Lock()
		defer s.Memory.reading.Unlock()
	}
	errs := make([]error, len(which))
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0))
	for n, i := range which {
		if to[i] = s.Memory.recall(ids[i]); to[i] == nil {
			all.Go(func() error {
				to[i], errs[n] = s.readNew(ids[i])
				return nil
			})
		}
	}
	_ = all.Wait() // the errors are in errs
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// readNew reads a task and remembers it.
func (s Store) readNew(id agentbox.TaskID) (*agentbox.Task, error) {
	changes, at := s.Memory.begin()
	t, rec, err := s.readWhole(id)
	if err != nil {
		return nil, err
	}
	s.Memory.remember(&t, rec, s.Attempt(id, len(t.Attempts)), changes, at)
	return &t, nil
}

// bounds are those of a task's record.
func (s Store) bounds(id agentbox.TaskID) (bounds, error) {
	if known, ok := s.Memory.bounds(id); ok {
		return known, nil
	}
	rec, err := s.record(id)
	return bounds{rec.Parallel, rec.Need}, err
}
