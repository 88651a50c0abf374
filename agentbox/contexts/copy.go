package contexts

import (
	"slices"

	"agentbox/mesh/identity"
)

// Copy is a context of another machine that is whole here, so that it can be entered while that machine
// sleeps, or when it is gone for good. Who enters it verifies its owner's signature, not ours.
type Copy struct {
	Owner   identity.PeerID `json:"owner"`
	Members []string        `json:"members"` // who may enter it, as its owner said
	Answer  Answer          `json:"answer"`
}

// May tells whether a member may enter it.
func (c Copy) May(member identity.PeerID) bool {
	return slices.Contains(c.Members, Everybody) || slices.Contains(c.Members, member.String())
}

// copied answers a member from a copy, if there is one that it may enter.
func (o *Owner) copied(member identity.PeerID, q Question) (Answer, bool) {
	if o.Copy == nil || q.Steal || q.Bases {
		return Answer{}, false
	}
	c, ok := o.Copy(q.Name)
	if !ok || !c.May(member) {
		return Answer{}, false
	}
	o.grant(member, Subject{ID: q.Name}, true, c.Answer)
	return c.Answer, true
}

// maxMembers bounds the members in an answer; of more, the rest may enter nothing but the original.
const maxMembers = 100

// forCopy are those who may enter a subject, for a machine that its owner has chosen to have a copy.
func (o *Owner) forCopy(s Subject, member identity.PeerID) []string {
	if o.Chosen == nil || !o.Chosen(s, member) {
		return nil
	}
	list, err := o.Allowed.Members(s)
	if err != nil {
		return nil
	}
	return list[:min(len(list), maxMembers)]
}
