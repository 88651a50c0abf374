package task

import (
	"context"

	"agentbox/agentbox"
)

// waits tells whether a task has to wait for another one that goes on. If one that it was to follow
// did not succeed, or was removed before that was seen, the task is cancelled.
func (q *Queue) waits(next *agentbox.Task) bool {
	for _, id := range next.After {
		t, err := q.Store.Read(id)
		switch {
		case err == nil && t.State == agentbox.TaskSucceeded:
			continue
		case err == nil && t.State.Done() || agentbox.CodeOf(err) == agentbox.NotFound:
			if err := q.cancel(next.ID, cancellation{After: id}); err != nil && agentbox.CodeOf(err) != agentbox.Conflict {
				q.Log.Error("cannot cancel a task whose predecessor failed", "task", next.ID, "error", err)
			}
		}
		return true
	}
	return false
}

// RetryBatch submits the tasks of a task's batch again that have ended and did not succeed, as a batch of
// their own with the same bounds. open finds what they are made from, as a rule what they were made from
// before. The error is Conflict if there are none.
func (q *Queue) RetryBatch(id agentbox.TaskID, open func(agentbox.TaskSpec) (*agentbox.SourceRef, error)) ([]agentbox.Task, error) {
	t, err := q.Store.Read(id)
	if err != nil {
		return nil, err
	}
	rec, err := q.Store.record(id)
	if err != nil {
		return nil, err
	}
	s := Submission{Parallel: rec.Parallel, Need: rec.Need}
	all, _ := q.Store.List() // one that cannot be read is reported elsewhere
	for _, one := range all {
		if one.Batch != t.Batch || !one.State.Done() || one.State == agentbox.TaskSucceeded {
			continue
		}
		spec := one.TaskSpec.Unattended()
		if spec.Source, err = open(spec); err != nil {
			return nil, err
		}
		s.Specs = append(s.Specs, spec)
	}
	if len(s.Specs) == 0 {
		return nil, agentbox.Errorf(agentbox.Conflict, "no task of the batch of %s has ended without success", id)
	}
	return q.Submit(s)
}

// batchCosts is what the tasks of each batch that have ended cost, for batches with a limit.
type batchCosts map[agentbox.TaskID][]agentbox.Cost

// add adds a task that has ended.
func (b batchCosts) add(t agentbox.Task) {
	if t.Limits.BatchCost > 0 {
		for _, c := range t.Costs {
			b[t.Batch] = agentbox.AddCost(b[t.Batch], c)
		}
	}
}

// limitBatches ends the open tasks of each batch that has cost what it may.
func (q *Queue) limitBatches(ctx context.Context, open []*agentbox.Task) {
	sums := batchCosts{}
	for _, t := range open {
		if t.Limits.BatchCost <= 0 {
			continue
		}
		one := valueOf(t)
		if q.CostSoFar != nil {
			one.Costs = q.CostSoFar(ctx, one)
		}
		sums.add(one)
	}
	for _, t := range open {
		if t.Limits.BatchCost <= 0 || q.Store.cancelled(t.ID) {
			continue
		}
		sum := sums[t.Batch]
		for _, c := range q.spent[t.Batch] {
			sum = agentbox.AddCost(sum, c)
		}
		for _, c := range sum {
			if c.Amount < t.Limits.BatchCost {
				continue
			}
			limit := agentbox.Limit{Kind: agentbox.LimitCost, Cost: t.Limits.BatchCost, Currency: c.Currency}
			if err := q.cancel(t.ID, cancellation{Limit: limit}); err != nil && agentbox.CodeOf(err) != agentbox.Conflict {
				q.Log.Error("cannot end a task of a batch that has cost what it may", "task", t.ID, "error", err)
			}
			break
		}
	}
}
