package fleet

import (
	"cmp"
	"slices"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/resources"
	"agentbox/mesh/identity"
)

// Idle is the value of TaskSpec.Where for any idle machine.
const Idle = "idle"

// Offer is an attempt that an owner offers. It travels as the text of a catalogue record, whose key
// is TASK/ATTEMPT.
type Offer struct {
	Owner   identity.PeerID `json:"-"`
	Name    string          `json:"-"` // of the owner
	Task    agentbox.TaskID `json:"-"`
	Attempt int             `json:"-"`
	Where   string          `json:"where"` // Idle, or the ID of a peer
	Need    resources.Share `json:"need"`
	Created time.Time       `json:"created"`
}

func (o Offer) key() offerKey { return offerKey{o.Owner, o.Task, o.Attempt} }

type offerKey struct {
	owner   identity.PeerID
	task    agentbox.TaskID
	attempt int
}

// Candidate is a machine that may take one more task.
type Candidate struct {
	Self    identity.PeerID
	Serves  func(owner string) bool // by name
	Fits    func(resources.Share) bool
	Running map[identity.PeerID]int // tasks that it runs, by owner
	// Not has offers that it got no lease of, or failed with, until when it does not ask again.
	Not map[offerKey]time.Time
}

// Choose decides which offer a machine asks for; false for none. The owner of whom it runs the fewest
// comes first, then the offer that has waited longest.
func Choose(c Candidate, offers []Offer, now time.Time) (Offer, bool) {
	mine := slices.DeleteFunc(slices.Clone(offers), func(o Offer) bool {
		wanted := o.Where == Idle || o.Where == c.Self.String()
		return !wanted || now.Before(c.Not[o.key()]) || !c.Serves(o.Name) || !c.Fits(o.Need)
	})
	if len(mine) == 0 {
		return Offer{}, false
	}
	return slices.MinFunc(mine, func(a, b Offer) int {
		return cmp.Or(cmp.Compare(c.Running[a.Owner], c.Running[b.Owner]), a.Created.Compare(b.Created), a.Owner.Compare(b.Owner))
	}), true
}
