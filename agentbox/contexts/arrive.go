package contexts

import (
	"context"
	"io"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// Arrival is a box that arrives from another machine, or comes back from there.
type Arrival interface {
	Said() Said // ID and token
	Step() api.Step
	// Record makes a step durable.
	Record(api.Step) error
	// Receive says what is here, writes what was saved, verifies it, and syncs it. It may close from.
	Receive(ctx context.Context, a LiveAnswer, from io.ReadWriteCloser) error
	// Run lets it run. After an error, Ran tells whether it may have.
	Run(ctx context.Context) error
	// Ran tells whether what was saved may have run here, so that it never can again.
	Ran() bool
	// Drop removes it, or what came of a box that was to come back.
	Drop() error
}

// LiveSource is the owner of what arrives (LiveTo).
type LiveSource interface {
	Say(ctx context.Context, q Said) (LiveAnswer, error)
	Take(ctx context.Context, q Said) (LiveAnswer, io.ReadWriteCloser, error)
}

// Move moves a box here and lets it run. After an error of code Conflict nothing has moved, and nothing
// is left here; with Unavailable its owner has not said whose it is, which Settle finds out.
func Move(ctx context.Context, from LiveSource, box Arrival) error {
	if err := receive(ctx, from, box); err != nil {
		return agentbox.Classify(agentbox.Conflict, "%w", err)
	}
	if err := ask(ctx, from, box); err != nil {
		return err
	}
	err := box.Run(context.WithoutCancel(ctx)) // who interrupts now loses nothing, and all must be as before or here
	if err != nil && !box.Ran() {
		if err := box.Record(api.StepLeaving); err != nil {
			return err
		}
		err = agentbox.Classify(agentbox.Conflict, "%w", err)
	}
	// What is not said now is said later.
	_ = Settle(context.WithoutCancel(ctx), from, box)
	return err
}

func receive(ctx context.Context, from LiveSource, box Arrival) error {
	q := box.Said()
	q.Word = WordTake
	a, r, err := from.Take(ctx, q)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := box.Receive(ctx, a, r); err != nil {
		return err
	}
	return box.Record(api.StepAsked)
}

// ask asks whose the box is, and records that. It is not cut short: who has asked has to know.
func ask(ctx context.Context, from LiveSource, box Arrival) error {
	q := box.Said()
	q.Word = WordMine
	_, err := from.Say(context.WithoutCancel(ctx), q)
	if err == nil {
		err = box.Record(api.StepMine)
	} else if agentbox.CodeOf(err) == agentbox.NotFound {
		if err := box.Drop(); err != nil {
			return err
		}
		return agentbox.Errorf(agentbox.Conflict, "its machine took it back")
	}
	if err == nil {
		return nil
	}
	return agentbox.Classify(agentbox.Unavailable, "its machine has not said whose it is now: %w", err)
}

// Settle says what is left to say about a box, and does what follows. It starts nothing.
func Settle(ctx context.Context, from LiveSource, box Arrival) error {
	q := box.Said()
	switch box.Step() {
	case api.StepAsked:
		return ask(ctx, from, box)
	case api.StepMine:
		if !box.Ran() {
			return nil
		}
		q.Word = WordRuns
		if _, err := from.Say(ctx, q); err != nil {
			return err
		}
		return box.Record(api.StepSettled)
	case api.StepLeaving:
		q.Word = WordBack
		if _, err := from.Say(ctx, q); err != nil {
			return err
		}
		return box.Drop()
	}
	return nil
}
