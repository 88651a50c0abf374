package fleet

import (
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/resources"
)

// Ten thousand tasks for which there is no machine take neither the catalogue nor their turn from others.
func TestOffersAreBounded(t *testing.T) {
	o := &Owner{open: map[attemptKey]*offered{}}
	add := func(n int, project, where string) (id agentbox.TaskID) {
		id = agentbox.TaskID{byte(n), byte(n >> 8), byte(len(project)), byte(len(where))}
		one := agentbox.Task{ID: id, Created: time.Unix(int64(n), 0), TaskSpec: agentbox.TaskSpec{Project: project, Where: where}}
		o.open[attemptKey{id, 1}] = &offered{task: one, attempt: agentbox.Attempt{Number: 1}, need: resources.Share{CPUs: 1}}
		return id
	}
	for n := range 10000 {
		add(n, "big", Label+"gpu")
	}
	want := map[string]bool{}
	for n := range 3 {
		want[add(20000+n, "big", Idle).String()+"/1"] = true
		want[add(30000+n, "little", Idle).String()+"/1"] = true
	}
	all := o.Offers()
	if len(all) != mostOffered {
		t.Errorf("%d offers", len(all))
	}
	for n, r := range all {
		if want[r.Key] && n < 9 {
			delete(want, r.Key)
		}
	}
	if len(want) > 0 {
		t.Errorf("not among the first: %v", want)
	}
}
