package egress

import (
	"context"
	"os"
	"slices"

	"agentbox/policy/registries"
)

// Unanswered are the questions about registries of some ecosystems that neither this machine nor a
// clean box has answered, without those that were given up.
func (e *Policies) Unanswered(ctx context.Context, ecosystems []string) []registries.Question {
	found, err := e.Registries.Known(ctx, os.Environ(), nil)
	if err != nil {
		return nil // composing the policy of a box fails by it, and says so
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(e.Registries.Unanswered(ecosystems, found), func(q registries.Question) bool { return e.skipped[q.Key()] })
}

// Record takes what tools said in a clean box, by question, and tells the boxes that run. A
// registry that is known now may be reached from now on.
func (e *Policies) Record(answers map[string]string) error {
	if err := e.Registries.Record(answers); err != nil {
		return err
	}
	e.Tell(func(Governed) bool { return true }, nil)
	return nil
}

// GiveUp leaves questions alone that could not be asked, for as long as this process runs. A clean
// box for them would fail again at each box.
func (e *Policies) GiveUp(questions []registries.Question) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, q := range questions {
		e.skipped[q.Key()] = true
	}
}
