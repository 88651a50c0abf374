package egress

import (
	"context"
	"os"
	"slices"

	"agentbox/policy/registries"
)

// OpenQuestions are the questions about registries of some ecosystems that neither this machine nor
// a clean box has answered, except those that were given up.
func (ps *Policies) OpenQuestions(ctx context.Context, ecosystems []string) []registries.Question {
	found, err := ps.Registries.Known(ctx, os.Environ(), nil)
	if err != nil {
		return nil // composing the policy fails for the same reason, and reports it
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return slices.DeleteFunc(ps.Registries.Unanswered(ecosystems, found), func(q registries.Question) bool { return ps.skipped[q.Key()] })
}

// RecordAnswers stores what tools answered in a clean box, by question, and notifies the running
// boxes, which may reach these registries now.
func (ps *Policies) RecordAnswers(answers map[string]string) error {
	if err := ps.Registries.Record(answers); err != nil {
		return err
	}
	ps.Notify(ps.ctx, func(Scope) bool { return true }, nil)
	return nil
}

// SkipQuestions skips questions that could not be asked, for as long as this process runs, since
// the next clean box would fail too.
func (ps *Policies) SkipQuestions(questions []registries.Question) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, q := range questions {
		ps.skipped[q.Key()] = true
	}
}
