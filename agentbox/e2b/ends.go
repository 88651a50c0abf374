package e2b

import (
	"context"
	"math"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/client"
)

// endAgain is when to try again what failed.
const endAgain = time.Minute

// endSandboxes removes or pauses each sandbox when its time is over. Those whose time ended while
// nothing was served go first.
func (f *Face) endSandboxes(ctx context.Context) {
	for {
		next := until(math.MaxInt)
		f.setNextEnd(next) // whatever changes from now on is looked at again
		all, err := f.running(ctx)
		if err != nil && ctx.Err() == nil {
			f.Log.Warn("cannot list the sandboxes", "error", err)
			next = time.Now().Add(endAgain)
		}
		for _, b := range all {
			at := endOf(b)
			if !at.After(time.Now()) {
				err := f.end(ctx, b)
				if err == nil {
					continue
				}
				f.Log.Warn("cannot end a sandbox", "box", b.ID, "error", err)
				at = time.Now().Add(endAgain)
			}
			if at.Before(next) {
				next = at
			}
		}
		f.setNextEnd(next)
		timer := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-f.ends:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// running are the sandboxes of all callers whose time passes.
func (f *Face) running(ctx context.Context) (out []agentbox.Box, err error) {
	looking, ctx, done := f.as(ctx, api.Token{ID: "e2b ends", Scope: api.ScopeRead})
	defer done()
	all, err := client.Call(ctx, looking.Client, api.ListBoxes, api.ListRequest{Known: true, Labels: map[string]string{labelKind: kindSandbox}}, nil)
	for _, b := range all {
		if _, making := f.making.Load(b.Labels[labelEnd]); !making && b.Labels[labelPaused] == "" {
			out = append(out, b)
		}
	}
	return out, err
}

func (f *Face) end(ctx context.Context, b agentbox.Box) error {
	acting, ctx, done := f.as(ctx, api.Token{ID: "e2b ends", Scope: api.ScopeRun})
	defer done()
	if b.Labels[labelPause] == "" {
		return acting.Remove(ctx, b.ID.String())
	}
	return f.pauseBox(ctx, acting, b)
}

// pauseBox pauses a sandbox. The label comes first: with it no request wakes the sandbox again.
func (f *Face) pauseBox(ctx context.Context, c caller, b agentbox.Box) error {
	_, err := client.Call(ctx, c.Client, api.Label, api.LabelRequest{BoxRef: refTo(b), Labels: map[string]string{labelPaused: yes}}, nil)
	if err == nil {
		f.conns.drop(b.ID)
		if _, err = client.Call(ctx, c.Client, api.Pause, refTo(b), nil); err != nil {
			_, _ = client.Call(ctx, c.Client, api.Label, api.LabelRequest{BoxRef: refTo(b), Labels: map[string]string{labelPaused: ""}}, nil)
		}
	}
	return err
}

func (f *Face) setNextEnd(at time.Time) {
	f.mu.Lock()
	f.nextEnd = at
	f.mu.Unlock()
}

// endsAt says when the time of a sandbox is over. All are looked at again only if no other ends before:
// each is asked how it is.
func (f *Face) endsAt(at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !at.Before(f.nextEnd) {
		return
	}
	select {
	case f.ends <- struct{}{}:
	default:
	}
}
