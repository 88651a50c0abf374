package host

import (
	"context"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// pausedWithAgent is a paused box whose agent's conversations nobody has saved, and that cannot be
// woken: its driver restores nothing.
func pausedWithAgent(t *testing.T, histories map[string][]string) (*Manager, *box) {
	t.Helper()
	h := newHome(t)
	rec := newTestRecord("mine")
	rec.Histories = histories
	touch(t, write(t, h, rec).Saved()+"/memory")
	m := manage(t, h)
	b, err := m.boxes.find(t.Context(), api.BoxRef{Box: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	return m, b
}

// A box that cannot be woken is removed all the same, and the user is told what is lost.
func TestRemoveOfUnwakeableBoxReportsLostHistory(t *testing.T) {
	for name, c := range map[string]struct {
		histories map[string][]string
		told      bool
	}{
		"an agent":  {map[string][]string{"claude": {".claude/projects"}}, true},
		"no agents": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			m, b := pausedWithAgent(t, c.histories)
			output := ""
			_, err := m.Remove(t.Context(), api.BoxRef{Box: "mine"}, func(e agentbox.Event) { output += e.Detail })
			if err != nil || exists(b.record().names(m.home).Record()) {
				t.Errorf("it was not removed: %v", err)
			}
			if told := strings.Contains(output, "conversations of agents in box mine are not kept"); told != c.told {
				t.Errorf("said %q", output)
			}
		})
	}
}

// Whoever interrupts while a box is woken has lost nothing.
func TestInterruptedRemoveKeepsPausedBox(t *testing.T) {
	m, b := pausedWithAgent(t, map[string][]string{"claude": {".claude/projects"}})
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	b.op.Lock()
	err := m.keepLastHistory(ctx, b, func(e agentbox.Event) { t.Errorf("said %q", e.Detail) })
	b.op.Unlock()
	if err == nil || b.state(m.disk) != agentbox.Paused {
		t.Errorf("%v, it is %s", err, b.state(m.disk))
	}
}
