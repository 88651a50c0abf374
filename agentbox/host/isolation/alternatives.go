package isolation

import (
	"context"

	"agentbox/agentbox"
)

// Alternatives are the kinds that are stronger or faster than the one that a box gets, the strongest
// first, each with what it lacks on this host.
func (c Chooser) Alternatives(ctx context.Context, chosen Choice) []agentbox.Alternative {
	var all []agentbox.Alternative
	has := rank(agentbox.KindOf(chosen.Kind), chosen.Facts.Hardware)
	for _, k := range agentbox.Kinds {
		could := rank(k, true)
		other := agentbox.Alternative{Kind: k.Name, Stronger: could.strength > has.strength, Faster: could.speed > has.speed}
		if !other.Stronger && !other.Faster {
			continue
		}
		switch facts, err := c.Probe(ctx, k.Name, false); {
		case err != nil:
			e := agentbox.AsError(err)
			other.Missing, other.Hint = e.Message, e.Hint
		case k.HardwareOnly && !facts.Hardware:
			other.Missing = facts.Reason
		}
		all = append(all, other)
	}
	return all
}

type ranks struct{ strength, speed int }

// rank compares kinds as docs/isolation.md does. An emulated machine is below all others in both.
func rank(k agentbox.Kind, hardware bool) ranks {
	if k.HardwareOnly && !hardware {
		return ranks{}
	}
	return map[agentbox.Isolation]ranks{agentbox.MicroVM: {3, 2}, agentbox.GVisor: {2, 1}, agentbox.Container: {1, 3}}[k.Name]
}
