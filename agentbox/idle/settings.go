package idle

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/resources"
	"agentbox/agentbox/resources/yielding"
)

// Keeper has the policy of a home, in a file. Its methods are safe for concurrent use.
type Keeper struct {
	File    string
	Running func() int // tasks of others that run here
	// Sleeping tells whether this machine is about to sleep; nil for no.
	Sleeping func() bool
	Meter    *Meter
}

// Policy reads the policy. One that cannot be read allows nothing.
func (k Keeper) Policy() (p api.IdlePolicy, err error) {
	if err = durable.ReadJSON(k.File, &p); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return api.IdlePolicy{}, err
	}
	return p, nil
}

// Status measures and decides.
func (k Keeper) Status(ctx context.Context) (api.IdleStatus, error) {
	p, err := k.Policy()
	if err != nil {
		return api.IdleStatus{}, err
	}
	running := k.Running()
	f := k.Meter.measure(ctx, "/", running > 0)
	f.Now, f.Running = time.Now(), running
	f.Sleeping = k.Sleeping != nil && k.Sleeping()
	own := api.IdlePolicy{Allowed: true, Tasks: f.Running + 1}
	return api.IdleStatus{Policy: p, Facts: f, Against: Decide(p, f), Busy: Busy(own, f), Boxes: k.boxes()}, nil
}

// Yield is how far boxes of others give way: where the owner lets them run while he works, a program
// of his that waits for a CPU leaves them a tenth; else nothing.
func (k Keeper) Yield() resources.Yield {
	if p, _ := k.Policy(); p.Always { // one that cannot be read allows nothing
		return resources.YieldMost
	}
	return resources.YieldAll
}

// boxes says what that means on this machine.
func (k Keeper) boxes() api.IdleBoxes {
	group, controllers := yielding.Means()
	of := k.Yield()
	return api.IdleBoxes{Nice: yielding.Nice(of), Idle: of == resources.YieldAll, Group: group, Memory: slices.Contains(controllers, "memory")}
}

// Serves tells whether a policy is for a member.
func Serves(p api.IdlePolicy, member string) bool {
	return p.Allowed && (len(p.Members) == 0 || slices.Contains(p.Members, member))
}

// Set replaces the policy.
func (k Keeper) Set(ctx context.Context, p api.IdlePolicy, _ agentbox.Progress) (api.IdleStatus, error) {
	if err := Check(p); err != nil {
		return api.IdleStatus{}, err
	}
	if err := durable.WriteJSON(k.File, p, 0o600); err != nil {
		return api.IdleStatus{}, err
	}
	return k.Status(ctx)
}

// Show is Status, as a call.
func (k Keeper) Show(ctx context.Context, _ api.None, _ agentbox.Progress) (api.IdleStatus, error) {
	return k.Status(ctx)
}
