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

// Settings are the policy of a home, in a file. Its methods are safe for concurrent use.
type Settings struct {
	File    string
	Running func() int // tasks of others that run here
	// Sleeping tells whether this machine is about to sleep; nil for no.
	Sleeping func() bool
	Meter    *Meter
}

// Policy reads the policy. One that cannot be read allows nothing.
func (s Settings) Policy() (p api.IdlePolicy, err error) {
	if err = durable.ReadJSON(s.File, &p); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return api.IdlePolicy{}, err
	}
	return p, nil
}

// Status measures and decides.
func (s Settings) Status(ctx context.Context) (api.IdleStatus, error) {
	p, err := s.Policy()
	if err != nil {
		return api.IdleStatus{}, err
	}
	running := s.Running()
	f := s.Meter.measure(ctx, "/", running > 0)
	f.Now, f.Running = time.Now(), running
	f.Sleeping = s.Sleeping != nil && s.Sleeping()
	own := api.IdlePolicy{Allowed: true, Tasks: f.Running + 1}
	return api.IdleStatus{Policy: p, Facts: f, Against: Decide(p, f), Busy: Busy(own, f), Boxes: s.boxes()}, nil
}

// Yield is how far boxes of others give way: where the owner lets them run while he works, a program
// of his that waits for a CPU leaves them a tenth; else nothing.
func (s Settings) Yield() resources.Yield {
	if p, _ := s.Policy(); p.Always { // one that cannot be read allows nothing
		return resources.YieldMost
	}
	return resources.YieldAll
}

// boxes says what that means on this machine.
func (s Settings) boxes() api.IdleBoxes {
	group, controllers := yielding.Means()
	of := s.Yield()
	return api.IdleBoxes{Nice: yielding.Nice(of), Idle: of == resources.YieldAll, Group: group, Memory: slices.Contains(controllers, "memory")}
}

// Serves tells whether a policy is for a member.
func Serves(p api.IdlePolicy, member string) bool {
	return p.Allowed && (len(p.Members) == 0 || slices.Contains(p.Members, member))
}

// Set replaces the policy.
func (s Settings) Set(ctx context.Context, p api.IdlePolicy, _ agentbox.Progress) (api.IdleStatus, error) {
	if err := Check(p); err != nil {
		return api.IdleStatus{}, err
	}
	if err := durable.WriteJSON(s.File, p, 0o600); err != nil {
		return api.IdleStatus{}, err
	}
	return s.Status(ctx)
}

// Show is Status, as a call.
func (s Settings) Show(ctx context.Context, _ api.None, _ agentbox.Progress) (api.IdleStatus, error) {
	return s.Status(ctx)
}
