package task

import (
	"slices"
	"sync"

	"agentbox/agentbox"
)

// Memory has tasks that have ended, which never change again, so that a list of thousands reads only
// what is new. The zero Memory is ready.
type Memory struct {
	mu    sync.Mutex
	ended map[agentbox.TaskID]agentbox.Task
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
	t, ok = m.ended[id]
	t.Costs = slices.Clone(t.Costs)
	return t, ok
}

func (m *Memory) remember(t agentbox.Task) {
	if m == nil || !t.State.Done() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended == nil {
		m.ended = map[agentbox.TaskID]agentbox.Task{}
	}
	if len(m.ended) < maxRemembered {
		m.ended[t.ID] = t
	}
}

func (m *Memory) forget(id agentbox.TaskID) {
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.ended, id)
	}
}
