package task

import (
	"os"
	"slices"
	"sync"
	"time"

	"agentbox/agentbox"
)

// Memory has tasks that do not change until the queue changes them: those that have ended, and those that
// nobody has begun. So a list of thousands reads only what is new. The zero Memory is ready.
type Memory struct {
	mu      sync.Mutex
	known   map[agentbox.TaskID]*remembered
	changes uint64 // of tasks, since the daemon began
	dir     time.Time
	ids     []agentbox.TaskID // what the directory had, when it was changed last at dir
}

// remembered is a task, and its record while it waits.
type remembered struct {
	task agentbox.Task
	rec  record
}

// maxRemembered bounds the tasks in memory, of some kilobytes each. Others are read each time.
const maxRemembered = 20000

// recall returns a task; its parts are shared with other callers, who only read them.
func (m *Memory) recall(id agentbox.TaskID) (t agentbox.Task, ok bool) {
	if m == nil {
		return t, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known, ok := m.known[id]
	if ok {
		t = known.task
		t.Costs = slices.Clone(t.Costs)
	}
	return t, ok
}

// waiting returns the record of a task that nobody has begun, which does not change; nil if that is not
// known.
func (m *Memory) waiting(id agentbox.TaskID) *record {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.known[id]; known != nil && known.rec.ID == id {
		return &known.rec
	}
	return nil
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
func (m *Memory) sorted(all []agentbox.Task, as time.Time) {
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
func (m *Memory) begin() uint64 {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changes
}

// remember remembers a task with its record, unless one has changed since begin was called.
func (m *Memory) remember(t agentbox.Task, rec record, begun uint64) {
	waits := t.State == agentbox.TaskQueued && len(t.Attempts) == 0
	if m == nil || !t.State.Done() && !waits {
		return
	}
	if !waits {
		rec = record{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		m.known = map[agentbox.TaskID]*remembered{}
	}
	if m.changes == begun && len(m.known) < maxRemembered {
		m.known[t.ID] = &remembered{t, rec}
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
