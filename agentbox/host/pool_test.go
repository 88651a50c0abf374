package host

import (
	"sync"
	"testing"

	"agentbox/agentbox"
)

// However many want one at once, each machine of the pool is leased once, the ones of another template and those that have ended not
// at all.
func TestAMachineOfThePoolIsLeasedOnce(t *testing.T) {
	const machines, wanting = 40, 100
	p := newPool(manage(t, newHome(t)), 0)
	for i := range machines {
		b := &box{rec: aBox("pooled")}
		if i%4 > 0 {
			b.sup = &supervised{}
		}
		p.ready["template"] = append(p.ready["template"], b)
	}
	p.ready["another"] = []*box{{rec: aBox("another"), sup: &supervised{}}}
	var mu sync.Mutex
	var all sync.WaitGroup
	leased := map[agentbox.BoxID]int{}
	for range wanting {
		all.Go(func() {
			if b := p.take("template"); b != nil {
				mu.Lock()
				defer mu.Unlock()
				leased[b.record().Box.ID]++
			}
		})
	}
	all.Wait()
	if len(leased) != machines*3/4 || p.size() != 1 {
		t.Errorf("%d machines are leased, %d are left", len(leased), p.size())
	}
	for id, times := range leased {
		if times != 1 {
			t.Errorf("%s is leased %d times", id, times)
		}
	}
}

// Machines that are kept ready are the first to go when the machine affords fewer, and none of
// those that somebody asked for.
func TestThePoolGivesWay(t *testing.T) {
	m := manage(t, newHome(t))
	p := newPool(m, 1)
	for key, pool := range map[string]int{"by the machine": -1, "asked for": 3} {
		p.hot[key] = record{Pool: pool}
		for range 3 {
			p.ready[key] = append(p.ready[key], &box{rec: aBox(key)})
		}
	}
	p.ready["nobody's"] = []*box{{rec: aBox("nobody's")}}
	if out := p.excess(); len(out) != 3 || len(p.ready["by the machine"]) != 1 || len(p.ready["asked for"]) != 3 || len(p.ready["nobody's"]) != 0 {
		t.Errorf("%d go; left: %d, %d, %d", len(out), len(p.ready["by the machine"]), len(p.ready["asked for"]), len(p.ready["nobody's"]))
	}
}
