package task

import (
	"os"
	"sync"
	"time"

	"agentbox/agentbox"
)

// Memory has tasks that do not change until the queue changes them: those that have ended, and those that
// nobody has begun; and those of which an attempt goes on, until a file in its directory is replaced. So a
// list of thousands reads only what is new. The zero Memory is ready.
type Memory struct {
	reading sync.Mutex // held while tasks are read, so that two lists do not both read them
	mu      sync.Mutex
	known   map[agentbox.TaskID]remembered
	changes uint64 // of tasks, since the daemon began
	dir     time.Time
	ids     []agentbox.TaskID // what the directory had, when it was changed last at dir
}

// remembered is a task, which nobody changes, and what its record has beside that.
type remembered struct {
	task *agentbox.Task
	bounds
	dir     string // of an attempt that goes on, as it was changed last at changed
	changed time.Time
}

// bounds are what a record has that a task has not.
type bounds struct {
	parallel int
	need     Need
}

// maxRemembered bounds the tasks in memory, of some kilobytes each. Others are read each time.
const maxRemembered = 20000

// recall returns a task, which is shared with other callers, who only read it; nil if it is not known.
func (m *Memory) recall(id agentbox.TaskID) *agentbox.Task {
	known, ok := m.find(id)
	if !ok || known.dir != "" && !known.changed.Equal(modified(known.dir)) {
		return nil
	}
	return known.task
}

// bounds returns those of a task, which do not change, if they are known.
func (m *Memory) bounds(id agentbox.TaskID) (bounds, bool) {
	known, ok := m.find(id)
	return known.bounds, ok
}

func (m *Memory) find(id agentbox.TaskID) (known remembered, ok bool) {
	if m == nil {
		return known, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known, ok = m.known[id]
	return known, ok
}

// modified is when a directory was changed last; zero if it is not there.
func modified(dir string) (at time.Time) {
	if info, err := os.Stat(dir); err == nil {
		at = info.ModTime()
	}
	return at
}

// settled is how long ago a directory was changed whose entries do not change unseen: file systems have
// times of some milliseconds.
const settled = time.Second

// entries lists the tasks that a directory has, as it was changed last at a time. It reads it only if it
// has changed.
func (m *Memory) entries(dir string) (ids []agentbox.TaskID, as time.Time, err error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, as, err
	}
	as = info.ModTime()
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.ids != nil && as.Equal(m.dir) {
			return m.ids, as, nil
		}
	}
	all, err := os.ReadDir(dir)
	if err != nil {
		return nil, as, err
	}
	for _, e := range all {
		if id, err := agentbox.ParseTaskID(e.Name()); err == nil {
			ids = append(ids, id)
		}
	}
	if m != nil && time.Since(as) > settled {
		m.dir, m.ids = as, ids
	}
	return ids, as, nil
}

// sorted has entries list these tasks first, in this order, unless the directory has changed.
func (m *Memory) sorted(all []*agentbox.Task, as time.Time) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ids == nil || !m.dir.Equal(as) {
		return
	}
	ids := make([]agentbox.TaskID, 0, len(m.ids)) // the old one may be in use
	first := map[agentbox.TaskID]bool{}
	for _, t := range all {
		first[t.ID] = true
		ids = append(ids, t.ID)
	}
	for _, id := range m.ids {
		if !first[id] {
			ids = append(ids, id)
		}
	}
	m.ids = ids
}

// begin is to be called before a task is read, for remember.
func (m *Memory) begin() (changes uint64, at time.Time) {
	if m == nil {
		return 0, at
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changes, time.Now()
}

// remember remembers a task that was read with its record, unless one has changed since begin was called,
// at a time. attempt is the directory of its last attempt.
func (m *Memory) remember(t *agentbox.Task, rec record, attempt string, changes uint64, at time.Time) {
	if m == nil {
		return
	}
	r := remembered{task: t, bounds: bounds{rec.Parallel, rec.Need}}
	if last := t.Last(); last != nil && last.Result == nil {
		r.dir, r.changed = attempt, modified(attempt)
		if at.Sub(r.changed) < settled { // it may have changed while it was read
			return
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		m.known = map[agentbox.TaskID]remembered{}
	}
	if _, known := m.known[t.ID]; m.changes == changes && (known || len(m.known) < maxRemembered) {
		m.known[t.ID] = r
	}
}

// forget is to be called when a task has changed on disk.
func (m *Memory) forget(id agentbox.TaskID) {
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.changes++
		delete(m.known, id)
	}
}
