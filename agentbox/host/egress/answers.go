package egress

import (
	"context"
	"os"
	"slices"

	"agentbox/policy/registries"
)

// OpenQuestions are the questions about registries of some ecosystems that neither this machine nor
// a clean box has answered, except those that were given up.
func (e *Policies) OpenQuestions(ctx context.Context, ecosystems []string) []registries.Question {
	found, err := e.Registries.Known(ctx, os.Environ(), nil)
	if err != nil {
		return nil // composing the policy fails for the same reason, and reports it
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(e.Registries.Unanswered(ecosystems, found), func(q registries.Question) bool { return e.skipped[q.Key()] })
}

// RecordAnswers stores what tools answered in a clean box, by question, and notifies the running
// boxes, which may reach these registries now.
func (e *Policies) RecordAnswers(answers map[string]string) error {
	if err := e.Registries.Record(answers); err != nil {
		return err
	}
	e.Notify(func(Scope) bool { return true }, nil)
	return nil
}

// SkipQuestions skips questions that could not be asked, for as long as this process runs, since
// the next clean box would fail too.
func (e *Policies) SkipQuestions(questions []registries.Question) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, q := range questions {
		e.skipped[q.Key()] = true
	}
}
