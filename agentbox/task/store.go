package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
)

// Store is the directory of all tasks:
//
//	<task>/task.json                       what it is to do; written once
//	<task>/cancelled                       somebody does not want it any more, or it reached a limit
//	<task>/released                        it goes on though who waited for it has gone
//	<task>/attempts/<n>/attempt.json       its box and its job, before either is made
//	<task>/attempts/<n>/result.json        how it ended; written once, when all evidence is there
//	<task>/attempts/<n>/transcript.cast    what its command wrote
//	<task>/attempts/<n>/timeline.jsonl     what happened
//
// Its methods may be called at any time, by any process; only the queue writes. Files are replaced
// as a whole.
type Store struct {
	Dir string
}

const version = 1

// The names of a task's files; Store has what is in them.
const (
	recordFile     = "task.json"
	cancelFile     = "cancelled"
	releaseFile    = "released"
	attemptFile    = "attempt.json"
	resultFile     = "result.json"
	transcriptFile = "transcript.cast"
	timelineFile   = "timeline.jsonl"
)

// record is task.json. What a task is to do never changes, so that a retry and an audit see what
// was asked.
type record struct {
	Version int             `json:"version"`
	ID      agentbox.TaskID `json:"id"`
	agentbox.TaskSpec
	Batch    agentbox.TaskID `json:"batch"`
	Parallel int             `json:"parallel,omitempty"` // of the batch, at most; 0: as the machine has room
	Need     Need            `json:"need"`
	Created  time.Time       `json:"created"`
}

// Need is what a task's box takes of this machine.
type Need struct {
	CPUs   int   `json:"cpus"`
	Memory int64 `json:"memory"` // bytes
}

func (s Store) task(id agentbox.TaskID) string { return filepath.Join(s.Dir, id.String()) }

// Attempt is the directory of one attempt.
func (s Store) Attempt(id agentbox.TaskID, n int) string {
	return filepath.Join(s.task(id), "attempts", strconv.Itoa(n))
}

// write makes a file that outlives a loss of power, with its directory.
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

// read decodes a file; Corrupt names one that cannot be. One that is absent is fs.ErrNotExist.
func read(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return agentbox.Errorf(agentbox.Corrupt, "%s: %w", path, err)
	}
	return nil
}

// record reads task.json.
func (s Store) record(id agentbox.TaskID) (record, error) {
	var r record
	err := read(filepath.Join(s.task(id), recordFile), &r)
	if errors.Is(err, fs.ErrNotExist) {
		return r, noTask(id)
	}
	if err == nil && r.Version != version {
		err = agentbox.Errorf(agentbox.Corrupt, "task %s was written by another agentbox: version %d", id, r.Version)
	}
	return r, err
}

func noTask(id agentbox.TaskID) error {
	return agentbox.Errorf(agentbox.NotFound, "there is no task %s", id).WithHint("agentbox task ls lists them")
}

// Read is a task as its files have it. NotFound for no task.
func (s Store) Read(id agentbox.TaskID) (agentbox.Task, error) {
	r, err := s.record(id)
	if err != nil {
		return agentbox.Task{}, err
	}
	t := agentbox.Task{ID: id, TaskSpec: r.TaskSpec, Batch: r.Batch, Created: r.Created}
	if t.Attempts, err = s.attempts(id); err != nil {
		return t, err
	}
	for _, a := range t.Attempts {
		if a.Result != nil {
			t.Account(a.Result.Used, a.Result.Cost)
		}
	}
	t.State = s.state(t)
	if !s.has(id, recordFile) { // it was removed meanwhile, and what was found missing was not
		return agentbox.Task{}, noTask(id)
	}
	return t, nil
}

// state follows from the attempts: one that goes on, one that is not followed by another, or none.
func (s Store) state(t agentbox.Task) agentbox.TaskState {
	last := t.Last()
	switch {
	case last != nil && last.Result == nil:
		return agentbox.TaskRunning
	case last != nil && !again(t):
		return last.Result.State
	case s.cancelled(t.ID):
		return agentbox.TaskCancelled
	}
	return agentbox.TaskQueued
}

// again tells whether a task whose last attempt has ended is to be tried once more.
func again(t agentbox.Task) bool {
	state := t.Last().Result.State
	return (state == agentbox.TaskFailed || state == agentbox.TaskLost) && len(t.Attempts) <= t.Retries
}

// attempts are those of a task, the first first. Their numbers have no gaps.
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
		all = append(all, a)
	}
}

// finish writes the result of an attempt. A second one is an error: an attempt has one.
func (s Store) finish(id agentbox.TaskID, n int, r agentbox.Result) error {
	path := filepath.Join(s.Attempt(id, n), resultFile)
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("attempt %d of task %s has a result already", n, id)
	}
	return write(path, r)
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

// cancelled tells whether somebody, or a limit, wants a task to end.
func (s Store) cancelled(id agentbox.TaskID) bool { return s.has(id, cancelFile) }

// released tells whether a held task goes on without its holder.
func (s Store) released(id agentbox.TaskID) bool { return s.has(id, releaseFile) }

// cancellation is why a task was cancelled.
type cancellation struct {
	Limit agentbox.Limit `json:"limit,omitzero"` // that it reached; none when somebody wanted it to end
}

// cancellation says why. A file that cannot be read is a cancellation without a limit.
func (s Store) cancellation(id agentbox.TaskID) (c cancellation) {
	_ = read(filepath.Join(s.task(id), cancelFile), &c)
	return c
}

// List is every task, the oldest first. One that cannot be read is in bad, with the reason.
func (s Store) List() (all []agentbox.Task, bad []error) {
	return s.list(func(agentbox.TaskID) bool { return true })
}

// undone is List without the tasks that are done. It adds those to done, and reads none of them
// again: what is done stays so.
func (s Store) undone(done map[agentbox.TaskID]bool) (open []agentbox.Task, bad []error) {
	all, bad := s.list(func(id agentbox.TaskID) bool { return !done[id] })
	for _, t := range all {
		if t.State.Done() {
			done[t.ID] = true
		} else {
			open = append(open, t)
		}
	}
	return open, bad
}

// list reads those of the tasks that want accepts.
func (s Store) list(want func(agentbox.TaskID) bool) (all []agentbox.Task, bad []error) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, []error{err}
	}
	for _, e := range entries {
		id, err := agentbox.ParseTaskID(e.Name())
		if err != nil || !want(id) {
			continue
		}
		t, err := s.Read(id)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		all = append(all, t)
	}
	slices.SortStableFunc(all, func(x, y agentbox.Task) int { return x.Created.Compare(y.Created) })
	return all, bad
}
