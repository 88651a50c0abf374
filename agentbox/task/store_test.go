package task

import (
	"strconv"
	"testing"

	"agentbox/agentbox"
)

// What fails on three machines is not tried on a fourth.
func TestFailuresOnMachines(t *testing.T) {
	for want, workers := range map[string][]string{"more": {"one", "two"}, "same machine": {"one", "one", "one"}, "enough": {"one", "two", "three"}, "here": {"", "", ""}} {
		one := agentbox.Task{TaskSpec: agentbox.TaskSpec{Retries: 10}}
		for n, worker := range workers {
			one.Attempts = append(one.Attempts, agentbox.Attempt{Number: n + 1, BoxName: strconv.Itoa(n), Worker: worker, Result: &agentbox.Result{State: agentbox.TaskFailed}})
		}
		if got := mayRetry(one); got != (want != "enough") {
			t.Errorf("%s: it is tried again: %v", want, got)
		}
	}
}
