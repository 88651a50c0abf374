package fleet

import (
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

// A worker that gossip sees may be silent for as long as it was told; one that gossip misses may not, nor one
// that gossip sees and the owner does not hear.
func TestHeard(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(1000, 0).Add(time.Duration(s) * time.Second) }
	seen := Heard{Last: at(0), Next: time.Minute}
	gone := seen
	gone.See(false, at(20))
	gone.See(false, at(25))
	for name, one := range map[string]struct {
		heard         Heard
		at            int
		late, expired bool
	}{
		"not due":              {seen, 59, false, false},
		"late":                 {seen, 75, true, false},
		"seen, never heard":    {seen, 91, true, true},
		"gone, and just asked": {gone, 34, true, false},
		"gone":                 {gone, 36, true, true},
		"of an earlier build":  {Heard{Last: at(0)}, 31, true, true},
	} {
		if late, expired := one.heard.Late(at(one.at)), one.heard.Expired(at(one.at)); late != one.late || expired != one.expired {
			t.Errorf("%s: late %v, expired %v", name, late, expired)
		}
	}
	if gone.See(true, at(33)); gone.Expired(at(40)) {
		t.Error("one that is seen again is missed")
	}
}

func TestChoose(t *testing.T) {
	now := time.Unix(1000, 0)
	offer := func(owner int, name, where string, memory int64, age int) Offer {
		return Offer{Owner: peer(owner), Name: name, Task: agentbox.TaskID{byte(owner), byte(age)}, Attempt: 1, Where: where, Need: resources.Share{Memory: memory}, Created: now.Add(-time.Duration(age) * time.Second)}
	}
	c := Candidate{
		Self: peer(9), Serves: func(owner string) bool { return owner != "stranger" }, Fits: func(s resources.Share) bool { return s.Memory <= 8 },
		Running: map[identity.PeerID]int{peer(1): 2}, Not: NotNow{},
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
	here := func(age int) Offer {
		o := offer(2, "bob", Idle, 1, age)
		o.Image = "here"
		return o
	}
	c.Has = func(image string) bool { return image == "here" }
	minute := int(time.Minute / time.Second)
	for name, one := range map[string]struct {
		offers []Offer
		want   int
	}{
		"whose image is here":                {[]Offer{offer(2, "bob", Idle, 1, 15*minute), here(5 * minute), here(6 * minute)}, 2},
		"what has waited for much longer":    {[]Offer{here(4 * minute), offer(2, "bob", Idle, 1, 15*minute)}, 1},
		"of whom least is run, all the more": {[]Offer{offer(2, "bob", Idle, 1, 5), func() Offer { o := served; o.Image = "here"; return o }()}, 0},
	} {
		if got, ok := Choose(c, one.offers, now); !ok || !reflect.DeepEqual(got, one.offers[one.want]) {
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
	// The clocks of its owner and of this machine are an hour apart.
	for _, apart := range []time.Duration{time.Hour, -time.Hour} {
		if _, ok := Choose(c, []Offer{failed}, now.Add(apart)); !ok {
			t.Errorf("clocks that are %s apart: nobody takes what has failed once", apart)
		}
	}
	c.Not[served.key()] = now.Add(time.Second)
	if _, ok := Choose(c, []Offer{served}, now); ok {
		t.Error("it asks again at once")
	}
	if _, ok := Choose(c, []Offer{served}, now.Add(time.Second)); !ok {
		t.Error("it never asks again")
	}
}
