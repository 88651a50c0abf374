package contexts

import (
	"context"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
)

// guest is a member in a box where it is.
type guest struct {
	member identity.PeerID
	in     Subject
	end    context.CancelFunc
}

// Admit lets a member into a box where it is. It can do there what its owner can, so it has to be one who
// may hand work back. within ends when it may no longer, or by leave. The error is Forbidden, also where
// there is nothing of this name.
func (o *Owner) Admit(ctx context.Context, member identity.PeerID, name string) (s Subject, within context.Context, leave func(), err error) {
	if s, err = o.Find(ctx, name); err == nil {
		within, cancel := context.WithCancel(ctx)
		g := &guest{member, s, cancel}
		o.mu.Lock()
		if o.guests == nil {
			o.guests = map[*guest]bool{}
		}
		o.guests[g] = true // before it is asked whether it may: seeOut then misses nobody
		o.mu.Unlock()
		leave = func() {
			cancel()
			o.mu.Lock()
			defer o.mu.Unlock()
			delete(o.guests, g)
		}
		var may bool
		if may, err = o.Allowed.MayPush(s, member); may && err == nil {
			return s, within, leave, nil
		}
		leave()
	}
	o.Log.Info("a member asked to be let into what it may not change", "peer", member.Short(), "error", err)
	return Subject{}, nil, nil, agentbox.Errorf(agentbox.Forbidden, "you may not enter it where it is")
}

// seeOut ends the stay of guests who may no longer be where they are.
func (o *Owner) seeOut() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for g := range o.guests {
		if may, err := o.Allowed.MayPush(g.in, g.member); !may || err != nil {
			g.end()
		}
	}
}
