package contexts

import (
	"context"
	"encoding/json"

	"agentbox/agentbox"
	"agentbox/agentbox/identity"
	peers "agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// PushService is that of work that is handed back to where it was entered.
const PushService wire.Service = "contexts-push-1"

// Push hands back what was done in a box that was entered, as blobs of the machine that asks. From is
// the identity as which it was entered, or went back last: its owner knows it by its own signature.
type Push struct {
	ID       string          `json:"id"`
	From     json.RawMessage `json:"from"`
	Identity agentbox.Digest `json:"identity"`
	Snapshot agentbox.Digest `json:"snapshot"`
	Work     agentbox.Digest `json:"work"`
}

// Pushed tells what became of it. Box goes on from it, and is now what Identity says, as its owner
// signed it; or else it is kept under Ref, in the mirror of its owner and in Box, if there still is one.
type Pushed struct {
	Box      string          `json:"box,omitempty"`
	Identity json.RawMessage `json:"identity,omitempty"`
	Ref      string          `json:"ref,omitempty"`
	Snapshot agentbox.Digest `json:"snapshot,omitzero"`
	Why      string          `json:"why,omitempty"` // it was not put in place; "" if the box has changed
	Nothing  bool            `json:"nothing,omitempty"`
	// Refused and Failed are as in Answer.
	Refused bool   `json:"refused,omitempty"`
	Failed  string `json:"failed,omitempty"`
}

// maxPush bounds messages about pushes, in bytes: an identity, and a few words.
const maxPush = 2*identity.MaxBytes + maxMessage

// PushHandler takes the work of members.
func (o *Owner) PushHandler() wire.Handler {
	return wire.AnswerWithin(answerTimeout, maxPush, func(c *wire.Conn, q Push) (any, error) {
		return o.take(c.Context(), c.Peer(), q), nil
	})
}

// take takes work if its maker may hand it back.
func (o *Owner) take(ctx context.Context, member peers.PeerID, q Push) Pushed {
	s, err := o.Find(ctx, q.ID)
	may := false
	if err == nil {
		may, err = o.Allowed.MayPush(s, member)
	}
	if !may || s.ID != q.ID {
		o.Log.Info("a member handed back what it may not", "peer", member.Short(), "error", err)
		return Pushed{Refused: true}
	}
	p, err := o.Accept(ctx, s, member, q)
	if err != nil {
		o.Log.Info("what a member handed back was not taken", "peer", member.Short(), "error", err)
		return Pushed{Failed: failure(err)}
	}
	return p
}

func failure(err error) string {
	message := agentbox.AsError(err).Message
	return message[:min(len(message), maxFailed)]
}

// Lend has a member fetch blobs of this machine until end is called.
func (o *Owner) Lend(member peers.PeerID, manifests ...agentbox.Digest) (end func()) {
	count := func(n int) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.lent == nil {
			o.lent = map[loan]int{}
		}
		for _, m := range manifests {
			if o.lent[loan{member, m}] += n; o.lent[loan{member, m}] == 0 {
				delete(o.lent, loan{member, m})
			}
		}
	}
	count(1)
	return func() { count(-1) }
}

// loan is a blob that a member may fetch for a while.
type loan struct {
	member   peers.PeerID
	manifest agentbox.Digest
}

// HandBack asks a member to take work. The error is NotFound if it is none, Forbidden if this machine
// may not hand it back, Unavailable if the member does not answer, Conflict if it could not take it.
func HandBack(ctx context.Context, c *wire.Conn, q Push) (p Pushed, err error) {
	if err := c.Ask(ctx, q, &p, maxPush); err != nil {
		return p, agentbox.Classify(agentbox.Unavailable, "the machine does not answer: %w", err)
	}
	return p, p.check()
}

// check makes the texts of an answer printable, and is its error.
func (p *Pushed) check() error {
	for _, text := range []*string{&p.Box, &p.Ref, &p.Why, &p.Failed} {
		*text = agentbox.Printable((*text)[:min(len(*text), maxFailed)])
	}
	switch {
	case p.Refused:
		return agentbox.Errorf(agentbox.Forbidden, "you may not push to it")
	case p.Failed != "":
		return agentbox.Errorf(agentbox.Conflict, "it was not taken there: %s", p.Failed)
	case p.Nothing:
		return agentbox.Errorf(agentbox.NotFound, "nothing was done")
	case len(p.Identity) == 0 && p.Ref == "" || len(p.Identity) > identity.MaxBytes:
		return agentbox.Errorf(agentbox.Corrupt, "the answer is incomplete")
	}
	return nil
}
