package setup

import (
	"context"

	"agentbox/agentbox"
	"agentbox/agentbox/caches"
)

// Team is what setup needs from the other machines of a team (agentbox/team).
type Team interface {
	// Setup fetches the setup result of a key into Results, and says who made it. NotFound if
	// nobody offers it.
	Setup(ctx context.Context, key agentbox.Digest, progress func(done, total int)) (by string, err error)
	// MakeOnce calls make unless get succeeds, on one machine of the team at a time.
	MakeOnce(ctx context.Context, key string, say func(string), get, make func(ctx context.Context) error) error
}

// findOrFetch returns the setup result of a key from here, else from the team, else NotFound.
func (s *Setup) findOrFetch(ctx context.Context, key agentbox.Digest, progress agentbox.Progress) (caches.Result, error) {
	made, err := s.find(ctx, key, progress)
	if s.Team == nil || agentbox.CodeOf(err) != agentbox.NotFound {
		return made, err
	}
	by, err := s.Team.Setup(ctx, key, func(done, total int) { progress.Update("setup", "from the team", int64(done), int64(total)) })
	if err != nil {
		return made, err
	}
	progress.Note("what setup makes comes from " + by)
	return s.find(ctx, key, progress)
}

// onceInTeam makes a setup result, unless another machine has made it or is making it.
func (s *Setup) onceInTeam(ctx context.Context, in caches.Ingredients, progress agentbox.Progress, populate func(context.Context) (caches.Result, error)) (made caches.Result, err error) {
	if s.Team == nil {
		return populate(ctx)
	}
	get := func(ctx context.Context) (err error) {
		made, err = s.findOrFetch(ctx, in.Key(), progress)
		return err
	}
	err = s.Team.MakeOnce(ctx, "setup/"+in.Key().Hex(), progress.Note, get, func(ctx context.Context) (err error) {
		made, err = populate(ctx)
		return err
	})
	return made, err
}
