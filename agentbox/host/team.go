package host

import (
	"context"

	"agentbox/agentbox"
	"agentbox/agentbox/caches"
)

// Team is what boxes need of the other machines (agentbox/team).
type Team interface {
	// Setup brings what setup made elsewhere for a key onto the Shelf, and says who made it.
	// NotFound: nobody offers it.
	Setup(ctx context.Context, key agentbox.Digest, progress func(done, total int)) (by string, err error)
	// Once makes something unless get gets it, one machine at a time.
	Once(ctx context.Context, key string, say func(string), get, make func(ctx context.Context) error) error
	// Waits tells whether others want what is made here as soon as it is there.
	Waits() bool
}

// findOrFetch finds what setup made here, or gets what it made elsewhere.
func (m *Manager) findOrFetch(ctx context.Context, key agentbox.Digest, progress agentbox.Progress) (caches.Made, error) {
	made, err := m.shelf.Find(ctx, key)
	if m.team == nil || agentbox.CodeOf(err) != agentbox.NotFound {
		return made, err
	}
	by, err := m.team.Setup(ctx, key, func(done, total int) { progress.Move("setup", "from the team", int64(done), int64(total)) })
	if err != nil {
		return made, err
	}
	progress.Say("what setup makes comes from " + by)
	return m.shelf.Find(ctx, key)
}

// onceInTeam makes what setup makes, unless another machine did or does.
func (m *Manager) onceInTeam(ctx context.Context, in caches.Ingredients, progress agentbox.Progress, populate func(context.Context) (caches.Made, error)) (made caches.Made, err error) {
	if m.team == nil {
		return populate(ctx)
	}
	get := func(ctx context.Context) (err error) {
		made, err = m.findOrFetch(ctx, in.Key(), progress)
		return err
	}
	err = m.team.Once(ctx, "setup/"+in.Key().Hex(), progress.Say, get, func(ctx context.Context) (err error) {
		made, err = populate(ctx)
		return err
	})
	return made, err
}
