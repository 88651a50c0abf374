package fleet

import (
	"context"
	"encoding/json"
	"log/slog"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/resources"
	"agentbox/mesh/identity"
)

// Ten thousand tasks for which there is no machine take neither the catalogue nor their turn from others.
func TestOffersAreBounded(t *testing.T) {
	o := &Owner{open: map[attemptKey]*offered{}}
	for n := range 10000 {
		addWaiting(o, n, "big", Label+"gpu")
	}
	want := map[string]bool{}
	for n := range 3 {
		want[addWaiting(o, 20000+n, "big", Idle).String()+"/1"] = true
		want[addWaiting(o, 30000+n, "little", Idle).String()+"/1"] = true
	}
	all := o.Offers()
	if len(all) != mostOfKind+len(want) {
		t.Errorf("%d offers", len(all))
	}
	for _, r := range all {
		delete(want, r.Key)
	}
	if len(want) > 0 {
		t.Errorf("not among them: %v", want)
	}
	for n := range 1000 {
		addWaiting(o, 40000+n, "project"+strconv.Itoa(n), Idle)
	}
	if all := o.Offers(); len(all) != mostOffered {
		t.Errorf("%d offers", len(all))
	}
}

func addWaiting(o *Owner, n int, project, where string) (id agentbox.TaskID) {
	id = agentbox.TaskID{byte(n), byte(n >> 8), byte(len(project)), byte(len(where))}
	one := agentbox.Task{ID: id, Created: time.Unix(int64(n), 0), TaskSpec: agentbox.TaskSpec{Project: project, Where: where}}
	o.open[attemptKey{id, 1}] = &offered{task: one, attempt: agentbox.Attempt{Number: 1}, need: resources.Share{CPUs: 1}}
	return id
}

// A catalogue stays as it is while tasks of each kind wait. Who asks for one that somebody has gets the
// next one like it, but none that it does not want; an earlier build, which cannot ask so, is offered
// others.
func TestOffersStay(t *testing.T) {
	o := &Owner{open: map[attemptKey]*offered{}, Changed: func() {}}
	var ids []agentbox.TaskID
	for n := range 3 * mostOfKind {
		ids = append(ids, addWaiting(o, n, "p", Idle))
	}
	other := addWaiting(o, 100, "p", Label+"gpu")
	first := o.Offers()
	for _, id := range ids[:mostOfKind] {
		at := o.open[attemptKey{id, 1}]
		at.lease, _ = at.lease.Grant(peer(1), "one")
	}
	if again := o.Offers(); !reflect.DeepEqual(again, first) {
		t.Errorf("the catalogue changes: %v", again)
	}
	q := question{Do: askClaim, Task: ids[0], Attempt: 1, Alike: true, Except: ids[mostOfKind : mostOfKind+2]}
	if at := o.instead(q); at == nil || at.task.ID != ids[mostOfKind+2] {
		t.Errorf("it gets %+v", at)
	}
	for _, at := range o.open {
		if at.task.ID != other {
			at.finished = true
		}
	}
	if at := o.instead(q); at != nil {
		t.Errorf("it gets one of another kind: %+v", at)
	}
	if all := o.Offers(); len(all) != 1 {
		t.Errorf("what nobody can have is offered: %v", all)
	}
	for _, at := range o.open {
		at.finished = false
	}
	first = o.Offers()
	o.open[attemptKey{ids[mostOfKind], 1}].cancelled = true // the oldest that waits
	q = question{Do: askClaim, Task: ids[mostOfKind], Attempt: 1}
	if at := o.instead(q); at != nil {
		t.Errorf("an earlier build gets what it did not ask for: %+v", at)
	}
	if again := o.Offers(); reflect.DeepEqual(again, first) {
		t.Error("an earlier build is offered for ever what it does not get")
	}
}

// Machines that ask for one attempt at the same time each get another one.
func TestManyClaimAtOnce(t *testing.T) {
	const machines = 8
	var decided sync.WaitGroup
	var asked atomic.Int32
	decided.Add(machines)
	o := &Owner{
		open: map[attemptKey]*offered{}, Changed: func() {}, Name: func(p identity.PeerID) string { return p.Short() }, Log: slog.New(slog.DiscardHandler),
		Lend: func(context.Context, agentbox.Task) (json.RawMessage, error) {
			if asked.Add(1) <= machines {
				decided.Done()
				decided.Wait() // so that each decides on the same one
			}
			return nil, nil
		},
	}
	var first agentbox.TaskID
	for n := range machines {
		id := addWaiting(o, n, "p", Idle)
		at := o.open[attemptKey{id, 1}]
		at.dir, at.task.Source = t.TempDir(), &agentbox.SourceRef{}
		if n == 0 {
			first = id
		}
	}
	o.Offers()
	got := make(chan agentbox.TaskID, machines)
	var all sync.WaitGroup
	for n := range machines {
		all.Go(func() {
			a, err := o.claim(t.Context(), peer(n), question{Do: askClaim, Task: first, Attempt: 1, Alike: true})
			if err != nil || a.Spec == nil {
				t.Errorf("%d gets nothing: %+v, %v", n, a, err)
			}
			got <- a.Task
		})
	}
	all.Wait()
	close(got)
	each := map[agentbox.TaskID]bool{}
	for id := range got {
		each[id] = true
	}
	if len(each) != machines {
		t.Errorf("%d of %d get one", len(each), machines)
	}
}

// Everybody has their turn, who came late too, and at each machine another one is first.
func TestTurns(t *testing.T) {
	var turns Turns
	ran := map[identity.PeerID]int{}
	firsts := map[identity.PeerID]int{}
	offers := []Offer{{Owner: peer(1), Where: Idle, Created: time.Unix(1, 0)}, {Owner: peer(2), Where: Idle, Created: time.Unix(2, 0)}}
	late := Offer{Owner: peer(3), Where: Idle, Created: time.Unix(3, 0)}
	choose := func(self int, offers []Offer, turns *Turns) identity.PeerID {
		o, ok := Choose(Candidate{Self: peer(self), Serves: func(string) bool { return true }, Fits: func(resources.Share) bool { return true }, Turns: turns}, offers, time.Unix(9, 0))
		if !ok {
			t.Fatal("nothing")
		}
		return o.Owner
	}
	for n := range 400 {
		if n == 200 {
			offers = append(offers, late)
			clear(ran)
		}
		who := choose(9, offers, &turns)
		turns.Begin(who)
		long := time.Minute
		if who == peer(1) {
			long = 2 * time.Minute // it has half as many
		}
		turns.Add(who, long)
		ran[who]++
		firsts[choose(n, offers, nil)]++
	}
	if ran[peer(1)] < 39 || ran[peer(1)] > 41 || ran[peer(2)] < 79 || ran[peer(2)] > 81 || ran[peer(3)] < 79 || ran[peer(3)] > 81 {
		t.Errorf("%v", ran)
	}
	if firsts[peer(1)] < 100 || firsts[peer(2)] < 100 {
		t.Errorf("all begin with the same: %v", firsts)
	}
}

// BenchmarkOffers is what an owner with as many attempts as may wait decides: what is offered, and who gets
// one.
func BenchmarkOffers(b *testing.B) {
	o := &Owner{open: map[attemptKey]*offered{}}
	var ids []agentbox.TaskID
	for n := range maxWaiting {
		ids = append(ids, addWaiting(o, n, "p", Idle))
	}
	o.Offers()
	at := o.open[attemptKey{ids[0], 1}]
	at.lease, _ = at.lease.Grant(peer(1), "one")
	for b.Loop() {
		o.Offers()
		if o.instead(question{Task: ids[0], Attempt: 1, Alike: true}) == nil {
			b.Fatal("nobody gets anything")
		}
	}
}
