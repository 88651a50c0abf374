package contexts

import (
	"context"
	"slices"
	"time"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// Base is what a context began with, which others can get before anybody enters it.
type Base struct {
	ID      string `json:"id"`
	Project string `json:"project"`
	Commit  string `json:"commit,omitempty"`
	// Image, Key and Result are as in an identity; zero for what is not known, or not there.
	Image  agentbox.Digest `json:"image,omitzero"`
	Key    agentbox.Digest `json:"key,omitzero"`
	Result agentbox.Digest `json:"result,omitzero"`
}

// Ahead is a context of another machine of which what it began with was got here.
type Ahead struct {
	Owner identity.PeerID `json:"owner"`
	Base
	Bytes   int64  `json:"bytes"`             // that came for it
	History int64  `json:"history,omitempty"` // bytes of these that stay in a mirror
	Brought bool   `json:"brought,omitempty"` // the image was not here before
	Problem string `json:"problem,omitempty"` // why something of it is not here
}

// Bounds of what is listed, and of the time that it takes.
const (
	maxBases   = 20
	maxProject = 200            // bytes
	maxList    = 4 * maxMessage // bytes
	// maxCommits bounds the commits that a question names.
	maxCommits  = 50
	listTimeout = 30 * time.Second
)

// Compare says what is to be got of what members offer, what of have stays, and what is of no use any
// more. Of a member that did not answer, all stays; what lacks something is got again.
func Compare(have []Ahead, offered map[identity.PeerID][]Base) (get, keep, gone []Ahead) {
	for _, one := range have {
		list, answered := offered[one.Owner]
		switch there := slices.Contains(list, one.Base); {
		case !answered || there && one.Problem == "":
			keep = append(keep, one)
		case there:
			one.Problem = ""
			get = append(get, one)
		default:
			gone = append(gone, one)
		}
	}
	for owner, list := range offered {
		for _, base := range list {
			if !slices.ContainsFunc(have, func(a Ahead) bool { return a.Owner == owner && a.Base == base }) {
				get = append(get, Ahead{Owner: owner, Base: base})
			}
		}
	}
	return get, keep, gone
}

// list answers what a member may enter.
func (o *Owner) list(ctx context.Context, member identity.PeerID) Answer {
	a := Answer{Bases: []Base{}}
	if o.Subjects == nil {
		return a
	}
	all, err := o.Subjects(ctx)
	if err != nil {
		return Answer{Failed: failure(err)}
	}
	for _, s := range all {
		if may, err := o.Allowed.May(s, member); !may || err != nil || len(s.Project) > maxProject {
			continue
		}
		if base, err := o.Base(ctx, s); err == nil && len(a.Bases) < maxBases { // else it is on its way out
			a.Bases = append(a.Bases, base)
		}
	}
	return a
}

// AskBases asks a member what of its contexts this machine may enter. A member of an earlier version
// lists none.
func AskBases(ctx context.Context, c *wire.Conn) ([]Base, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var a Answer
	if err := c.Ask(ctx, Question{Bases: true}, &a, maxList); err != nil {
		return nil, agentbox.Classify(agentbox.Unavailable, "the machine does not answer: %w", err)
	}
	a.Bases = slices.DeleteFunc(a.Bases, func(b Base) bool {
		return b.ID == "" || b.ID != agentbox.Printable(b.ID) || len(b.ID) > maxProject || len(b.Project) > maxProject
	})
	return a.Bases[:min(len(a.Bases), maxBases)], nil
}
