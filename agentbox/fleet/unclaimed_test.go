package fleet

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/mesh/catalogue"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// ofOther is a task of another machine, which has ended so long ago; 0 for one that runs.
func ofOther(ago time.Duration) agentbox.Task {
	t := agentbox.Task{ID: agentbox.NewTaskID(), State: agentbox.TaskRunning, TaskSpec: agentbox.TaskSpec{For: &agentbox.TaskOrigin{Owner: peer(1).String(), Name: "one"}}}
	a := agentbox.Attempt{Number: 1}
	if ago > 0 {
		t.State, a.Result = agentbox.TaskSucceeded, &agentbox.Result{State: agentbox.TaskSucceeded, Ended: time.Now().Add(-ago)}
	}
	t.Attempts = []agentbox.Attempt{a}
	return t
}

func TestOverdue(t *testing.T) {
	own := ofOther(365 * 24 * time.Hour)
	own.For = nil
	old, running := ofOther(agentbox.KeptForOthers+time.Hour), ofOther(0)
	all := []agentbox.Task{old, running, own, ofOther(time.Hour)}
	if got := overdue(all, time.Now()); len(got) != 1 || got[0].ID != old.ID {
		t.Errorf("%d go: %+v", len(got), got)
	}
	// Of very many, those go that ended first. What a builder keeps for others is not among them.
	all = nil
	for n := range mostLeft + 2 {
		all = append(all, ofOther(time.Duration(n+1)*time.Minute))
	}
	kept := ofOther(24 * time.Hour)
	kept.Where = Idle
	got := overdue(append(all, kept), time.Now())
	if len(got) != 2 || got[0].ID != all[mostLeft].ID || got[1].ID != all[mostLeft+1].ID {
		t.Errorf("%d go: %+v", len(got), got)
	}
}

func TestAbandoned(t *testing.T) {
	now := time.Now()
	kept := ofOther(0)
	kept.Where = Idle
	for what, c := range map[string]struct {
		t      agentbox.Task
		member bool
		silent time.Duration
		want   bool
	}{
		"its owner sleeps":             {ofOther(0), true, 3 * 24 * time.Hour, false},
		"its owner is away for long":   {ofOther(0), true, ownerAway + time.Minute, true},
		"its owner was revoked":        {ofOther(0), false, 0, true},
		"it has ended":                 {ofOther(time.Hour), false, ownerAway + time.Minute, false},
		"a builder keeps it":           {kept, true, ownerAway + time.Minute, false},
		"a builder keeps a stranger's": {kept, false, 0, true},
	} {
		if got := abandoned(c.t, c.member, now.Add(-c.silent), now); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// lonely is a worker's machine whose tasks' owner cannot be reached, and is no member any more. What is done
// with tasks is told, until over is closed.
type lonely struct {
	Local
	all  []agentbox.Task
	told chan string
	over chan struct{}
}

func (l *lonely) tell(what string) {
	select {
	case l.told <- what:
	case <-l.over:
	}
}

func (l *lonely) Tasks() []agentbox.Task                               { return l.all }
func (l *lonely) Idle(context.Context) (Readiness, error)              { return Readiness{}, nil }
func (l *lonely) Keeps() bool                                          { return false }
func (l *lonely) Returned(agentbox.TaskID) bool                        { return false }
func (l *lonely) Pack(context.Context, agentbox.Task, io.Writer) error { return nil }
func (l *lonely) Written(context.Context, agentbox.Task, io.Writer) error {
	return nil
}
func (l *lonely) Cancel(id agentbox.TaskID) error { l.tell("end " + id.String()); return nil }
func (l *lonely) Forget(_ context.Context, t agentbox.Task) error {
	l.tell("forget " + t.ID.String())
	return nil
}
func (l *lonely) Offers() map[identity.PeerID][]catalogue.Record { return nil }
func (l *lonely) Name(identity.PeerID) string                    { return "one" }
func (l *lonely) Self() identity.PeerID                          { return peer(2) }
func (l *lonely) IsMember(identity.PeerID) bool                  { return false }
func (l *lonely) DialLine(ctx context.Context, p identity.PeerID) (*wire.Conn, error) {
	return l.Dial(ctx, p)
}

func (l *lonely) Dial(context.Context, identity.PeerID) (*wire.Conn, error) {
	l.tell("dial")
	return nil, agentbox.Errorf(agentbox.Unavailable, "it is away")
}

// A result that nobody takes holds no place, what is overdue goes, and what is for nobody ends.
func TestOwnerGone(t *testing.T) {
	waits, old, running, delivered := ofOther(time.Hour), ofOther(2*agentbox.KeptForOthers), ofOther(0), ofOther(time.Hour)
	delivered.Delivered = true
	l := &lonely{all: []agentbox.Task{waits, old, running, delivered}, told: make(chan string), over: make(chan struct{})}
	w := &Worker{Team: l, Local: l, Log: slog.New(slog.DiscardHandler), Wake: background.NewSignal(), Changed: func() {}}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	want := map[string]int{"dial": 3, "forget " + old.ID.String(): 1, "end " + running.ID.String(): 1} // it asks for all but the one that was delivered
	for len(want) > 0 {
		what := <-l.told
		if want[what]--; want[what] == 0 {
			delete(want, what)
		} else if want[what] < 0 && what != "dial" && what != "end "+running.ID.String() {
			t.Fatal(what)
		}
	}
	if running, unsettled := w.Running(), w.Unsettled(); running != 1 || unsettled != 3 {
		t.Errorf("%d run, %d are unsettled", running, unsettled)
	}
	close(l.over)
	stop()
	<-done
}
