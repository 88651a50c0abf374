package fleet

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/resources"
	"agentbox/mesh/identity"
)

func peer(n int) (p identity.PeerID) {
	p[0], p[1], p[2] = byte(n), byte(n>>8), 1
	return p
}

func TestLease(t *testing.T) {
	first, err := Lease{}.Grant(peer(1), "one")
	if err != nil || !first.Holds(peer(1), 1) || first.Holds(peer(2), 1) || first.Holds(peer(1), 2) {
		t.Fatalf("%+v, %v", first, err)
	}
	if _, err := first.Grant(peer(1), "one"); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("a lease is given twice: %v", err)
	}
	given, over := first.End(false)
	if given.Held() || over || given.Lost != 0 {
		t.Errorf("%+v, %v", given, over)
	}
	next, _ := given.Grant(peer(2), "two")
	if next.Holds(peer(1), 1) || !next.Holds(peer(2), 2) {
		t.Errorf("%+v", next)
	}
	for n := 1; n <= MaxLeases; n++ {
		var over bool
		if next, over = next.End(true); over != (n == MaxLeases) {
			t.Errorf("after %d workers that were lost: %v", n, over)
		}
		next, _ = next.Grant(peer(n), "x")
	}
}

func TestChoose(t *testing.T) {
	now := time.Unix(1000, 0)
	offer := func(owner int, name, where string, memory int64, age int) Offer {
		return Offer{Owner: peer(owner), Name: name, Task: agentbox.TaskID{byte(owner), byte(age)}, Attempt: 1, Where: where, Need: resources.Share{Memory: memory}, Created: now.Add(-time.Duration(age) * time.Second)}
	}
	c := Candidate{
		Self: peer(9), Serves: func(owner string) bool { return owner != "stranger" }, Fits: func(s resources.Share) bool { return s.Memory <= 8 },
		Running: map[identity.PeerID]int{peer(1): 2}, Not: map[offerKey]time.Time{},
	}
	served := offer(1, "ann", Idle, 1, 100)
	for name, one := range map[string]struct {
		offers []Offer
		want   int // index, -1 for none
	}{
		"nothing":                      {nil, -1},
		"what has waited longest":      {[]Offer{offer(2, "bob", Idle, 1, 5), offer(2, "bob", Idle, 1, 9)}, 1},
		"of whom least is run":         {[]Offer{served, offer(2, "bob", Idle, 1, 5)}, 1},
		"too large":                    {[]Offer{offer(2, "bob", Idle, 9, 5)}, -1},
		"for another machine":          {[]Offer{offer(2, "bob", peer(8).String(), 1, 5)}, -1},
		"for this one":                 {[]Offer{offer(2, "bob", peer(9).String(), 1, 5)}, 0},
		"of whom nothing is to be run": {[]Offer{offer(3, "stranger", Idle, 1, 5)}, -1},
	} {
		got, ok := Choose(c, one.offers, now)
		if ok != (one.want >= 0) || ok && !reflect.DeepEqual(got, one.offers[one.want]) {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
	}
	label := offer(2, "bob", Label+"gpu", 1, 5)
	if _, ok := Choose(c, []Offer{label}, now); ok {
		t.Error("it takes what is for machines with a label")
	}
	c.Labels = []string{"fast", "gpu"}
	if _, ok := Choose(c, []Offer{label}, now); !ok {
		t.Error("it does not take what is for its label")
	}
	failed := offer(2, "bob", Idle, 1, 5)
	failed.Avoid, failed.Since = []identity.PeerID{c.Self}, now
	if _, ok := Choose(c, []Offer{failed}, now); ok {
		t.Error("it takes at once what has failed on it")
	}
	if _, ok := Choose(c, []Offer{failed}, now.Add(avoidTime)); !ok {
		t.Error("nobody takes what has failed once")
	}
	c.Not[served.key()] = now.Add(time.Second)
	if _, ok := Choose(c, []Offer{served}, now); ok {
		t.Error("it asks again at once")
	}
	if _, ok := Choose(c, []Offer{served}, now.Add(time.Second)); !ok {
		t.Error("it never asks again")
	}
}

// simulated is an attempt in TestNight: its lease, when its worker was last heard, who of those who
// ever had it still work on it, and its results.
type simulated struct {
	Offer
	lease   Lease
	beat    time.Time
	results int
	over    bool
}

// TestNight simulates a night by the rules that the daemons use: machines fall asleep at any time,
// without a word, and wake up with what they ran. No task is lost or done twice.
func TestNight(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { night(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func night(t *testing.T, random *rand.Rand) {
	type work struct {
		task  *simulated
		fence uint64
		ends  time.Time
	}
	type machine struct {
		id     identity.PeerID
		asleep time.Time // until then
		runs   *work
	}
	start := time.Unix(0, 0)
	var tasks []*simulated
	for n := range 300 {
		tasks = append(tasks, &simulated{Offer: Offer{
			Owner: peer(1000 + n%3), Name: "ann", Task: agentbox.TaskID{byte(n), byte(n >> 8)}, Attempt: 1, Where: Idle, Created: start.Add(time.Duration(n) * time.Millisecond),
		}})
	}
	machines := make([]machine, 30)
	for n := range machines {
		machines[n].id = peer(n)
	}
	for now := start; now.Before(start.Add(24 * time.Hour)); now = now.Add(beatEvery) {
		var offers []Offer
		left := 0
		byOffer := map[offerKey]*simulated{}
		for _, one := range tasks {
			if one.lease.Held() && Expired(one.beat, now) {
				var over bool
				if one.lease, over = one.lease.End(true); over {
					one.over = true
				}
			}
			if !one.over {
				left++
			}
			if !one.lease.Held() && !one.over {
				offers, byOffer[one.key()] = append(offers, one.Offer), one
			}
		}
		if left == 0 {
			break
		}
		for n := range machines {
			m := &machines[n]
			if now.Before(m.asleep) {
				continue
			}
			if random.IntN(2000) == 0 {
				m.asleep = now.Add(time.Duration(random.IntN(3600)) * time.Second)
				continue
			}
			if w := m.runs; w != nil {
				switch { // what Owner.reply decides
				case !w.task.lease.Holds(m.id, w.fence) || w.task.over:
					m.runs = nil
				case now.After(w.ends):
					w.task.results++
					w.task.over, m.runs = true, nil
				default:
					w.task.beat = now
				}
				continue
			}
			c := Candidate{Self: m.id, Serves: func(string) bool { return true }, Fits: func(resources.Share) bool { return true }}
			o, ok := Choose(c, offers, now)
			if !ok {
				continue
			}
			one := byOffer[o.key()]
			next, err := one.lease.Grant(m.id, "m")
			if err != nil {
				continue // another machine was faster
			}
			one.lease, one.beat = next, now
			m.runs = &work{one, next.Fence, now.Add(time.Duration(60+random.IntN(600)) * time.Second)}
		}
	}
	lost := 0
	for _, one := range tasks {
		switch {
		case !one.over:
			t.Errorf("task %s was never done: %+v", one.Task, one.lease)
		case one.results == 0 && one.lease.Lost >= MaxLeases:
			lost++
		case one.results != 1:
			t.Errorf("task %s has %d results", one.Task, one.results)
		}
	}
	if lost > len(tasks)/20 {
		t.Errorf("%d of %d tasks gave up", lost, len(tasks))
	}
}
