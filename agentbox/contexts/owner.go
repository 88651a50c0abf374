package contexts

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// Service is that of questions about what may be entered.
const Service wire.Service = "contexts-1"

// Question asks for a context, by the ID or name of a box or task. With History, the answer also
// names the history of the commit that it began with. With Steal, the box is paused after that, for
// those who may hand work back. With Bases, nothing is prepared: the answer lists what the member may
// enter or, with a name, has only that history. Have are commits that who asks has, with their histories.
type Question struct {
	Name    string   `json:"name"`
	History bool     `json:"history,omitempty"`
	Steal   bool     `json:"steal,omitempty"`
	Bases   bool     `json:"begun,omitempty"`
	Have    []string `json:"have,omitempty"`
}

// Answer names blobs by their manifests: the signed identity (package identity), the snapshot
// (layers.StoredSnapshot), its pack, and that of the history.
type Answer struct {
	Identity agentbox.Digest `json:"identity,omitzero"`
	Snapshot agentbox.Digest `json:"snapshot,omitzero"`
	Work     agentbox.Digest `json:"work,omitzero"`
	History  agentbox.Digest `json:"history,omitzero"`
	// Members are those who may enter it, for a machine that is to have a copy.
	Members []string `json:"members,omitempty"`
	Bases   []Base   `json:"begun,omitempty"`
	// Refused tells that there is no such context, or none for who asks; Failed, what went wrong.
	Refused bool   `json:"refused,omitempty"`
	Failed  string `json:"failed,omitempty"`
}

// Bounds of messages, in bytes, and of the time that an answer takes: a snapshot of a large
// workspace, and the pack of a large history.
const (
	maxMessage    = 16 << 10
	maxFailed     = 500
	answerTimeout = 10 * time.Minute
)

// Owner answers what may be entered here. All fields are needed. Methods may be called at once.
type Owner struct {
	Allowed *Allowed
	// Find finds a box or a task by its ID or name; NotFound if there is none.
	Find func(ctx context.Context, name string) (Subject, error)
	// Prepare makes what is handed over, as it is now.
	Prepare func(ctx context.Context, s Subject, q Question) (Answer, error)
	// Subjects lists what there is, Base says what one of it began with, and History makes a pack of
	// that. They may be nil together.
	Subjects func(ctx context.Context) ([]Subject, error)
	Base     func(ctx context.Context, s Subject) (Base, error)
	History  func(ctx context.Context, s Subject, have []string) (agentbox.Digest, error)
	// Accept takes what a member who may hand it back has made of s.
	Accept func(ctx context.Context, s Subject, member identity.PeerID, p Push) (Pushed, error)
	// PauseFor pauses the box of s for a member, once its context was prepared.
	PauseFor func(ctx context.Context, s Subject, member identity.PeerID) error
	// Copy finds a copy of another machine's context; Chosen tells whether a member is to have one of ours.
	// Both may be nil.
	Copy   func(name string) (Copy, bool)
	Chosen func(s Subject, member identity.PeerID) bool
	// Withdrawn is called when something that was granted is not any more.
	Withdrawn func()
	Log       *slog.Logger

	mu      sync.Mutex
	granted map[identity.PeerID]*grants
	lent    map[loan]int
	guests  map[*guest]bool
}

// Handler answers the questions of members.
func (o *Owner) Handler() wire.Handler {
	return wire.AnswerWithin(answerTimeout, maxMessage, func(c *wire.Conn, q Question) (any, error) {
		return o.answer(c.Context(), c.Peer(), q), nil
	})
}

// answer grants what it names to the member who asks, if that may enter it.
func (o *Owner) answer(ctx context.Context, member identity.PeerID, q Question) Answer {
	if q.Bases && q.Name == "" {
		return o.list(ctx, member)
	}
	q.Have = q.Have[:min(len(q.Have), maxCommits)]
	s, err := o.Find(ctx, q.Name)
	may := false
	if err == nil {
		if may, err = o.Allowed.May(s, member); may && q.Steal {
			may, err = o.Allowed.MayPush(s, member)
		}
	}
	if !may {
		if a, ok := o.copied(member, q); ok {
			return a
		}
		o.Log.Info("a member asked for a context that it may not enter", "peer", member.Short(), "error", err)
		return Answer{Refused: true}
	}
	var a Answer
	if q.Bases {
		a.History, err = o.History(ctx, s, q.Have)
	} else {
		a, err = o.Prepare(ctx, s, q)
	}
	if err == nil && q.Steal {
		err = o.PauseFor(ctx, s, member)
	}
	if err != nil {
		return Answer{Failed: failure(err)}
	}
	o.grant(member, s, false, a)
	a.Members = o.forCopy(s, member)
	return a
}

// granted is what a member may fetch a blob for.
type granted struct {
	Subject
	copied bool
}

// grants are those of one member, of which the oldest go: it may ask for ever.
type grants struct {
	of    map[agentbox.Digest]granted
	order []agentbox.Digest
}

const maxGrants = 4096

// grant lets a member fetch what an answer names.
func (o *Owner) grant(member identity.PeerID, s Subject, copied bool, a Answer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.granted == nil {
		o.granted = map[identity.PeerID]*grants{}
	}
	g := o.granted[member]
	if g == nil {
		g = &grants{of: map[agentbox.Digest]granted{}}
		o.granted[member] = g
	}
	for _, d := range a.blobs() {
		if _, known := g.of[d]; !known {
			g.order = append(g.order, d)
		}
		g.of[d] = granted{s, copied}
	}
	for len(g.order) > maxGrants {
		delete(g.of, g.order[0])
		g.order = g.order[1:]
	}
}

// blobs are the manifests that an answer names.
func (a Answer) blobs() (all []agentbox.Digest) {
	for _, d := range []agentbox.Digest{a.Identity, a.Snapshot, a.Work, a.History} {
		if !d.IsZero() {
			all = append(all, d)
		}
	}
	return all
}

// Granted tells whether a member was given the manifest of a blob, and may still enter what it is of,
// or it is lent.
func (o *Owner) Granted(member identity.PeerID, manifest agentbox.Digest) bool {
	o.mu.Lock()
	var s granted
	g, ok := o.granted[member]
	if ok {
		s, ok = g.of[manifest]
	}
	lent := o.lent[loan{member, manifest}] > 0
	o.mu.Unlock()
	if lent || !ok {
		return lent
	}
	if s.copied {
		c, ok := o.Copy(s.ID)
		return ok && c.May(member)
	}
	may, err := o.Allowed.May(s.Subject, member)
	return may && err == nil
}

// Share replaces who may enter a subject and, with push, hand work back.
func (o *Owner) Share(s Subject, members []string, push bool) error {
	err := o.Allowed.Set(s, members, push)
	if err == nil {
		o.seeOut()
		o.Withdrawn()
	}
	return err
}

// Ask asks a member for a context. The error is Forbidden if there is none that this machine may
// enter, Unavailable if the member does not answer.
func Ask(ctx context.Context, c *wire.Conn, q Question) (a Answer, err error) {
	q.Have = q.Have[:min(len(q.Have), maxCommits)]
	if err := c.Ask(ctx, q, &a, maxMessage); err != nil {
		return a, agentbox.Classify(agentbox.Unavailable, "the machine does not answer: %w", err)
	}
	switch {
	case a.Refused:
		return a, agentbox.Errorf(agentbox.Forbidden, "you may not enter %s", agentbox.Printable(q.Name))
	case a.Failed != "":
		return a, agentbox.Errorf(agentbox.Conflict, "%s cannot be entered now: %s", agentbox.Printable(q.Name), agentbox.Printable(a.Failed[:min(len(a.Failed), maxFailed)]))
	case !q.Bases && (a.Identity.IsZero() || a.Snapshot.IsZero() || a.Work.IsZero()) || (q.History || q.Bases) && a.History.IsZero():
		return a, agentbox.Errorf(agentbox.Corrupt, "the answer about %s is incomplete", agentbox.Printable(q.Name))
	}
	return a, nil
}
