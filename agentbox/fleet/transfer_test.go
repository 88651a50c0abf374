package fleet

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/resources"
	"agentbox/mesh/identity"
)

// Whatever an owner, its keepers and its workers do in whatever order, one of them at most has an
// attempt, and whoever had it before has it no more.
func TestOneHasIt(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 36))
		var l Lease
		type had struct {
			who   identity.PeerID
			fence uint64
		}
		var all []had
		for range 200 {
			who, keeper := peer(random.IntN(4)), l.Keeper
			switch random.IntN(5) {
			case 0, 1:
				next, err := l.Grant(who, "x")
				if err == nil && !keeper.IsZero() && who != keeper {
					t.Fatalf("%s gets what %s keeps", who, keeper)
				}
				if err == nil {
					l, all = next, append(all, had{who, next.Fence})
				}
			case 2:
				if !l.Kept() { // its worker is silent, or gives it back
					l, _ = l.End(random.IntN(2) == 0)
				}
			case 3:
				l = l.Transfer(who)
			case 4:
				l = l.Transfer(identity.PeerID{})
				if !keeper.IsZero() && l.Held() && l.Worker == keeper && len(all) > 0 && l.Kept() {
					t.Fatalf("it is taken back, and %s keeps it", keeper)
				}
			}
			holds := 0
			for i, h := range all {
				if l.Holds(h.who, h.fence) {
					holds++
					if i != len(all)-1 {
						t.Fatalf("seed %d: %+v holds what was given to %+v later", seed, h, all[len(all)-1])
					}
				}
			}
			if holds > 1 {
				t.Fatalf("seed %d: %d have it: %+v", seed, holds, l)
			}
		}
	}
}

// A keeper gets the attempt as an owner would have it, for as long as it likes; a restart of the owner
// changes nothing, and taking it back does.
func TestTransfer(t *testing.T) {
	dir := t.TempDir()
	one := agentbox.Task{ID: agentbox.NewTaskID(), TaskSpec: agentbox.TaskSpec{Where: Idle, Source: &agentbox.SourceRef{}, Secrets: []string{"TOKEN"}}}
	begin := func() (*Owner, func()) {
		ctx, stop := context.WithCancel(t.Context())
		o := &Owner{
			Sources: noSources{}, Name: func(p identity.PeerID) string { return p.Short() }, Changed: func() {}, Log: slog.New(slog.DiscardHandler),
			Here: func(identity.PeerID) bool { return true }, Call: func(identity.PeerID, agentbox.TaskID, int) {},
			Lend: func(context.Context, agentbox.Task) (json.RawMessage, error) { return nil, nil },
		}
		done, followed := make(chan struct{}), o.Followed()
		go func() {
			defer close(done)
			_, _ = o.Run(ctx, one, agentbox.Attempt{Number: 1}, resources.Share{}, dir, nil)
		}()
		<-followed
		return o, func() { stop(); <-done }
	}
	q := question{Task: one.ID, Attempt: 1}
	say := func(o *Owner, from int, do string, fence uint64) answer {
		q := q
		q.Do, q.Fence = do, fence
		return ask(t, o, from, q, "")
	}
	o, stop := begin()
	if err := o.Transfer(agentbox.NewTaskID(), peer(3)); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("%v", err)
	}
	if err := o.Transfer(one.ID, peer(3)); err != nil {
		t.Fatal(err)
	}
	if all := o.Offers(); len(all) != 1 || !strings.Contains(all[0].Text, `"keep":true`) {
		t.Errorf("%+v", all)
	}
	if a := say(o, 1, askClaim, 0); a.Spec != nil {
		t.Errorf("another machine gets it: %+v", a)
	}
	a := say(o, 3, askClaim, 0)
	if a.Spec == nil || a.Spec.Where != Idle || len(a.Spec.Secrets) != 1 || a.Fence != 1 {
		t.Fatalf("%+v", a)
	}
	stop()
	o, stop = begin()
	defer stop()
	if _, over := o.check(o.find(q), time.Now().Add(time.Hour)); over || say(o, 3, askBeat, 1).Stop != "" {
		t.Error("a keeper that was silent for an hour has it no more")
	}
	if err := o.Transfer(one.ID, identity.PeerID{}); err != nil {
		t.Fatal(err)
	}
	if a := say(o, 3, askBeat, 1); a.Stop != stopStale {
		t.Errorf("who kept it has it still: %+v", a)
	}
	if a := say(o, 1, askClaim, 0); a.Fence != 2 || a.Spec.Where != "" {
		t.Errorf("a worker: %+v", a)
	}

	// This machine is to sleep, while a worker has the attempt, and gives it back.
	given := o.HandOver(peer(3))
	if len(given) != 1 || len(o.NotKept(given)) != 0 {
		t.Errorf("%v is given; not kept: %v", given, o.NotKept(given))
	}
	if say(o, 1, askReturn, 2); len(o.NotKept(given)) != 1 {
		t.Error("nobody has it")
	}
	if a := say(o, 3, askClaim, 0); a.Fence != 3 || len(o.NotKept(given)) != 1 {
		t.Errorf("its source is here only: %+v", a)
	}
	if say(o, 3, askExport, 3); len(o.NotKept(given)) != 0 {
		t.Error("the keeper has all of it")
	}
	if again := o.HandOver(peer(3)); len(again) != 0 {
		t.Errorf("given twice: %v", again)
	}
}

// Only who is to keep a task takes it, and not to run it.
func TestChooseKept(t *testing.T) {
	keep := Offer{Owner: peer(1), Task: agentbox.TaskID{1}, Attempt: 1, Where: peer(9).String(), Keep: true}
	now := time.Unix(1000, 0)
	if _, ok := chooseKept(peer(9), nil, []Offer{keep}, now); !ok {
		t.Error("nobody keeps it")
	}
	if _, ok := chooseKept(peer(8), nil, []Offer{keep}, now); ok {
		t.Error("another one keeps it")
	}
	if _, ok := chooseKept(peer(9), map[offerKey]time.Time{keep.key(): now.Add(1)}, []Offer{keep}, now); ok {
		t.Error("it asks again at once")
	}
	keep.Since = now.Add(-time.Second)
	not := map[offerKey]time.Time{keep.key(): now.Add(1)}
	keep.Since = now
	if _, ok := chooseKept(peer(9), not, []Offer{keep}, now); !ok {
		t.Error("it was taken back, and is not asked for when it is offered anew")
	}
	not[attemptOf(keep.Owner, keep.Task, keep.Attempt)] = now.Add(1)
	if _, ok := chooseKept(peer(9), not, []Offer{keep}, now); ok {
		t.Error("what could not be taken, or is not wanted, is asked for when it is offered anew")
	}
	c := Candidate{Self: peer(9), Serves: func(string) bool { return true }, Fits: func(resources.Share) bool { return true }}
	if _, ok := Choose(c, []Offer{keep}, now); ok {
		t.Error("it runs what it is to keep")
	}
}

// A keeper that was killed after it got the attempt, and before it had written that down, says so when it is
// called. Its lease has no other end.
func TestKeeperLacksTask(t *testing.T) {
	begun, calls, here := time.Now(), 0, true
	o := &Owner{
		Changed: func() {}, Log: slog.New(slog.DiscardHandler),
		Here: func(identity.PeerID) bool { return here }, Call: func(identity.PeerID, agentbox.TaskID, int) { calls++ },
	}
	at := &offered{dir: t.TempDir(), done: make(chan agentbox.Result, 1)}
	o.open = map[attemptKey]*offered{{agentbox.TaskID{}, 1}: at}
	get := func() {
		t.Helper()
		var err error
		if at.lease, err = (Lease{Keeper: peer(3), Fence: at.lease.Fence, Lost: at.lease.Lost}).Grant(peer(3), "keeper"); err != nil {
			t.Fatal(err)
		}
		at.heard, at.called, calls = Heard{Last: begun}, time.Time{}, 0
	}
	look := func(s int) (agentbox.Result, bool) { return o.check(at, begun.Add(time.Duration(s)*time.Second)) }
	lacks := func() { o.Lacks(peer(3), agentbox.TaskID{}, 1) }

	get()
	here = false
	if look(3600); calls != 0 {
		t.Error("a keeper that is away is called")
	}
	here = true
	if lacks(); !at.lease.Held() {
		t.Error("one that was not called loses it")
	}
	if look(3601); calls != 1 {
		t.Errorf("it is called %d times", calls)
	}
	at.heard.Last = begun.Add(3602 * time.Second)
	if lacks(); !at.lease.Held() {
		t.Error("one that has said something since loses it")
	}
	at.heard.Last = begun
	if lacks(); at.lease.Held() || at.lease.Keeper != peer(3) {
		t.Errorf("it has it still, or gets it no more: %+v", at.lease)
	}
	get()
	at.cancelled = true
	look(1)
	lacks()
	if r, over := look(2); !over || r.State != agentbox.TaskCancelled {
		t.Errorf("it was cancelled, and is %+v, over %v", r, over)
	}
	at.cancelled, at.finished = false, false
	get()
	look(20)
	if lacks(); len(at.done) != 1 || (<-at.done).State != agentbox.TaskLost {
		t.Error("it takes machines down with it, and is offered again")
	}
}
