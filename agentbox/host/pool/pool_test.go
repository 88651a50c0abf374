package pool

import (
	"context"
	"maps"
	"sync"
	"testing"
)

// machine is one of a pool for tests.
type machine struct {
	id   int
	live bool
}

func newPool(want int) *Pool[string, *machine] {
	return New(Config[string, *machine]{Want: want, Live: func(m *machine) bool { return m.live }})
}

// However many want one at once, each machine of the pool is leased once, the ones of another
// template and those that have ended not at all.
func TestPoolLeasesOnce(t *testing.T) {
	const machines, wanting = 40, 100
	p := newPool(0)
	for i := range machines {
		p.ready["template"] = append(p.ready["template"], &machine{i, i%4 > 0})
	}
	p.ready["another"] = []*machine{{-1, true}}
	var mu sync.Mutex
	var all sync.WaitGroup
	leased := map[int]int{}
	for range wanting {
		all.Go(func() {
			if m, ok := p.Take("template"); ok {
				mu.Lock()
				defer mu.Unlock()
				leased[m.id]++
			}
		})
	}
	all.Wait()
	if len(leased) != machines*3/4 || p.Size() != 1 {
		t.Errorf("%d machines are leased, %d are left", len(leased), p.Size())
	}
	for id, times := range leased {
		if times != 1 {
			t.Errorf("%d is leased %d times", id, times)
		}
	}
}

// Machines that are kept ready are the first to go when the machine affords fewer, and none of
// those that somebody asked for.
func TestPoolShrinksForBoxes(t *testing.T) {
	p := newPool(1)
	for key, want := range map[string]int{"by the machine": -1, "asked for": 3} {
		p.demands[key] = demand[string]{want: want}
		for i := range 3 {
			p.ready[key] = append(p.ready[key], &machine{i, true})
		}
	}
	p.ready["nobody's"] = []*machine{{9, true}}
	if out := p.excess(); len(out) != 3 || len(p.ready["by the machine"]) != 1 || len(p.ready["asked for"]) != 3 || len(p.ready["nobody's"]) != 0 {
		t.Errorf("%d go; left: %d, %d, %d", len(out), len(p.ready["by the machine"]), len(p.ready["asked for"]), len(p.ready["nobody's"]))
	}
}

// A machine that has ended while it waited leaves a box behind, which goes with the next round,
// whether somebody wanted it or not.
func TestPoolRemovesEndedMachines(t *testing.T) {
	gone := map[int]bool{}
	p := newPool(0)
	p.Remove = func(m *machine) error { gone[m.id] = true; return nil }
	p.demands["template"] = demand[string]{want: 4}
	p.ready["template"] = []*machine{{1, false}, {2, true}, {3, false}, {4, true}}
	if m, ok := p.Take("template"); !ok || m.id != 2 {
		t.Fatalf("%+v, %v", m, ok)
	}
	p.trim()
	if !maps.Equal(gone, map[int]bool{1: true, 3: true}) || p.Size() != 1 {
		t.Errorf("%v are removed, %d wait", gone, p.Size())
	}
}

// A machine that was being made when its template was withdrawn is leased to nobody, even if a
// template of the same key is in use again.
func TestWithdrawnTemplateIsNotPooled(t *testing.T) {
	p := newPool(1)
	var removed []*machine
	p.Remove = func(m *machine) error { removed = append(removed, m); return nil }
	p.Make = func(context.Context, string) (*machine, error) {
		if err := p.Withdraw("template"); err != nil {
			t.Error(err)
		}
		p.WarmUp("template", 1, "another")
		return &machine{1, true}, nil
	}
	p.WarmUp("template", 1, "like")
	template, o, _ := p.next()
	if err := p.add(t.Context(), template, o); err != nil {
		t.Fatal(err)
	}
	if _, ok := p.Take("template"); ok || len(removed) != 1 {
		t.Errorf("leased %v, %d removed", ok, len(removed))
	}
}
