package task

import (
	"context"
	"testing"

	"agentbox/agentbox"
)

func TestAfter(t *testing.T) {
	h := newFakeHost(t)
	q, _ := h.serve(t, Store{Dir: t.TempDir()}, noChanges)
	follow := func(first agentbox.TaskID) agentbox.Task {
		all, err := q.Submit(Submission{Specs: []agentbox.TaskSpec{{Command: []string{"0"}, After: []agentbox.TaskID{first}}}})
		if err != nil {
			t.Fatal(err)
		}
		return all[0]
	}
	good, bad := submit(t, q, 0, "0")[0], submit(t, q, 0, "3")[0]
	second := follow(good.ID)
	third, never, neither := follow(second.ID), follow(bad.ID), follow(agentbox.NewTaskID())
	last := follow(never.ID)
	if got := wait(t, q, third.ID); got.State != agentbox.TaskSucceeded {
		t.Errorf("%+v", got)
	}
	before, after := wait(t, q, good.ID), wait(t, q, second.ID)
	if after.Last().Started.Before(before.Last().Result.Ended) {
		t.Error("it began before the one that it follows had ended")
	}
	for _, one := range []agentbox.Task{never, neither, last} {
		if got := wait(t, q, one.ID); got.State != agentbox.TaskCancelled || len(got.Attempts) != 0 {
			t.Errorf("%+v", got)
		}
	}
}

// A batch ends when it has cost what it may, as what has ended counts, too.
func TestBatchCost(t *testing.T) {
	h := newFakeHost(t)
	q, stop := h.serve(t, Store{Dir: t.TempDir()}, noChanges)
	stop()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	limits := agentbox.TaskLimits{BatchCost: 5}
	q = NewQueue(ctx, q.Config)
	q.CostSoFar = func(_ context.Context, one agentbox.Task) []agentbox.Cost {
		if one.State == agentbox.TaskRunning {
			return []agentbox.Cost{{Amount: 2, Currency: "XTS"}}
		}
		return nil
	}
	all, err := q.Submit(Submission{Specs: []agentbox.TaskSpec{
		{Command: []string{"never"}, Limits: limits}, {Command: []string{"never"}, Limits: limits}, {Command: []string{"never"}, Limits: limits}, {Command: []string{"never"}, Limits: limits},
	}})
	if err != nil {
		t.Fatal(err)
	}
	other, err := q.Submit(Submission{Specs: []agentbox.TaskSpec{{Command: []string{"0"}}}})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); q.Run() }()
	for _, one := range all {
		if got := wait(t, q, one.ID); got.State != agentbox.TaskLimited {
			t.Errorf("%+v", got)
		}
	}
	if got := wait(t, q, other[0].ID); got.State != agentbox.TaskSucceeded {
		t.Errorf("%+v", got)
	}
	cancel()
	<-done
	ended := batchCosts{}
	batch := agentbox.NewTaskID()
	for range 2 {
		ended.add(agentbox.Task{TaskSpec: agentbox.TaskSpec{Limits: limits}, Batch: batch, Costs: []agentbox.Cost{{Amount: 2.5, Currency: "XTS"}}})
	}
	ended.add(agentbox.Task{Batch: batch, Costs: []agentbox.Cost{{Amount: 9, Currency: "XTS"}}})
	if ended[batch][0].Amount != 5 {
		t.Errorf("%+v", ended)
	}
}

// A batch goes on where it stopped: what succeeded, or still runs, is not done again.
func TestRetryBatch(t *testing.T) {
	h := newFakeHost(t)
	q, _ := h.serve(t, Store{Dir: t.TempDir()}, noChanges)
	all, err := q.Submit(Submission{Parallel: 2, Specs: []agentbox.TaskSpec{{Command: []string{"0"}}, {Command: []string{"3"}}, {Command: []string{"4"}}, {Command: []string{"0"}}}})
	if err != nil {
		t.Fatal(err)
	}
	other := submit(t, q, 0, "5")[0]
	for _, one := range append(all, other) {
		wait(t, q, one.ID)
	}
	from := func(agentbox.TaskSpec) (*agentbox.SourceRef, error) { return &agentbox.SourceRef{Directory: "d"}, nil }
	again, err := q.RetryBatch(all[3].ID, from)
	if err != nil || len(again) != 2 || again[0].Command[0] != "3" || again[1].Command[0] != "4" || again[1].Batch != again[0].ID || again[0].Source.Directory != "d" {
		t.Fatalf("%+v, %v", again, err)
	}
	if rec, err := q.Store.record(again[1].ID); err != nil || rec.Parallel != 2 {
		t.Errorf("%+v, %v", rec, err)
	}
	good := submit(t, q, 0, "0")[0]
	wait(t, q, good.ID)
	if _, err := q.RetryBatch(good.ID, from); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("%v", err)
	}
}
