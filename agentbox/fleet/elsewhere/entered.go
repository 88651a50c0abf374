package elsewhere

import (
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/fleet"
	"agentbox/mesh/identity"
)

// entered is a box of another machine that somebody here entered where it is, so that the next daemon
// knows it by its name.
type entered struct {
	Box  agentbox.BoxID  `json:"box"`
	Name string          `json:"name"` // here
	Of   string          `json:"of"`   // what its machine is asked for
	Peer identity.PeerID `json:"peer"`
}

// remember remembers a box of another machine, in the place of one that had its name.
func (b *Boxes) remember(id agentbox.BoxID, at BoxThere) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recall()
	if b.seen[id] == at {
		return nil
	}
	if len(b.seen) >= maxSeen {
		clear(b.seen)
	}
	var all []entered
	b.seen[id] = at
	for other, was := range b.seen {
		switch {
		case other != id && at.Name != "" && was.Called == at.Called:
			delete(b.seen, other)
		case was.Name != "": // else it is known by its task
			all = append(all, entered{other, was.Called, was.Name, was.Peer})
		}
	}
	if at.Name == "" {
		return nil
	}
	slices.SortFunc(all, func(x, y entered) int { return strings.Compare(x.Box.String(), y.Box.String()) })
	return durable.WriteJSON(b.File, all, 0o600)
}

// recall reads once what an earlier daemon remembered. What cannot be read has to be entered again. The
// caller holds mu.
func (b *Boxes) recall() {
	if b.seen != nil {
		return
	}
	b.seen = map[agentbox.BoxID]BoxThere{}
	var all []entered
	if durable.ReadJSON(b.File, &all) == nil {
		for _, one := range all {
			b.seen[one.Box] = BoxThere{fleet.BoxAt{Name: one.Of, Peer: one.Peer}, one.Name}
		}
	}
}
