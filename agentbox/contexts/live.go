package contexts

import (
	"context"
	"io"
	"sync"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// LiveService moves what runs in a box to a member: its memory, processes and files.
//
// A move has a token, which the taker chose. What is saved runs on one machine at most, whatever is
// killed when:
//
//   - WordTake: the owner saves the box, and nobody there can wake it until the connection ends. It
//     sends what it saved, but files that the taker says it has. If the connection ends now, the owner's
//     box goes on.
//   - The taker has all of it on disk and has verified it. Then it records that it asks (Asked), and
//     says WordMine. The owner records that the box moved with this token (HandOver). From then on
//     it never runs what it saved. An owner that did not record that says no, for ever.
//   - The taker records the answer, and only then lets the box run. WordRuns: the owner drops what it
//     saved.
//   - A taker that cannot let it run records that (Leaving), says WordBack, and forgets it. The owner
//     records that it has the box again.
//
// All words but WordTake may be repeated, by a later process too, until they are answered.
//
// A box goes back by another move, in which who took it is the owner. That machine asks for it by
// WordReturn, with the token of the move in which it took the box.
const LiveService wire.Service = "contexts-live-1"

// Word is what a taker says.
type Word string

const (
	WordShow   Word = "show" // what the box is, and whether it can move
	WordTake   Word = "take"
	WordMine   Word = "mine"
	WordRuns   Word = "runs"
	WordBack   Word = "back"
	WordReturn Word = "return" // to take back a box that moved; it is answered after that
)

// Said is a word about a box, by its ID, and in all but WordShow about a move.
type Said struct {
	Word  Word   `json:"word"`
	ID    string `json:"id"`
	Token string `json:"token,omitempty"`
	// Live is the box that goes back, in WordReturn.
	Live *api.Live `json:"live,omitempty"`
}

// LiveAnswer answers a word. What was saved follows that of WordTake.
type LiveAnswer struct {
	Live *api.Live `json:"live,omitempty"`
	// Seed and Authority are what programs in the box rely on: the seed of its placeholders, and the
	// certificate authority that it alone trusts.
	Seed      string `json:"seed,omitempty"`
	Authority []byte `json:"authority,omitempty"`
	// No: the box is not, or not any more, that of the token. Refused and Failed are as in Answer.
	No      bool   `json:"no,omitempty"`
	Refused bool   `json:"refused,omitempty"`
	Failed  string `json:"failed,omitempty"`
}

// LiveBoxes are the boxes of an owner. What they record is durable when a method returns.
type LiveBoxes interface {
	// Show says what a box is. Conflict, with the reason, if it cannot move.
	Show(ctx context.Context, id string) (api.Live, error)
	// Pause saves a box, which no operation may wake until it is released.
	Pause(ctx context.Context, id string) (MovingBox, error)
	// MovedTo tells by which move a box has gone; false for none.
	MovedTo(ctx context.Context, id string) (api.LiveMove, bool)
	// Runs drops what was saved of a box that has gone by g, TakeBack records that it is this machine's
	// again. Both do nothing for a box that has not gone by g.
	Runs(ctx context.Context, id string, g api.LiveMove) error
	TakeBack(ctx context.Context, id string, g api.LiveMove) error
}

// MovingBox is a saved box that nobody else can wake.
type MovingBox interface {
	Relies() (seed string, authority []byte, err error)
	Send(ctx context.Context, to io.ReadWriter) error
	HandOver(g api.LiveMove) error
	// GoOn lets a box that was not handed over run again, if it ran. Release is called last.
	GoOn() error
	Release()
}

// LiveOwner serves LiveService. All fields are needed.
type LiveOwner struct {
	// May returns the ID of the box that a member names, if it may have it: Forbidden or NotFound if not,
	// and what else is wrong for one that it may have.
	May   func(ctx context.Context, name string, member identity.PeerID) (id string, err error)
	Boxes LiveBoxes
	// Return takes what runs in a member's box back into the one here that it moved from (Move):
	// Forbidden if the member may not hand it back, Conflict if the box here has gone on since.
	Return func(ctx context.Context, member identity.PeerID, q Said) error
	// Failed gets the errors of what happened after the member had its answer.
	Failed func(id string, err error)

	mu     sync.Mutex
	offers map[api.LiveMove]*offer
}

// offer is a paused box that a taker is to have.
type offer struct {
	asked  chan struct{} // the taker says that it has all: closed at most once, under mu
	known  bool          // asked is closed
	done   chan struct{} // closed when it is decided
	answer LiveAnswer    // to WordMine, once it is done
}

const maxLive = 64 << 10 // bytes of a message

// Handler answers members.
func (lo *LiveOwner) Handler() wire.Handler {
	return func(ctx context.Context, c *wire.Conn) {
		defer c.KeepAlive()()
		c.EachStream(ctx, 0, func(ctx context.Context, s *wire.Stream) error {
			var q Said
			if err := wire.ReadMessage(s, &q, maxLive); err != nil {
				return err
			}
			return lo.answer(ctx, c.Peer(), q, s)
		}, func(error) {})
	}
}

// answer answers one word. ctx ends with the connection.
func (lo *LiveOwner) answer(ctx context.Context, member identity.PeerID, q Said, w io.ReadWriteCloser) error {
	g := api.LiveMove{Peer: member.String(), Token: q.Token}
	var a LiveAnswer
	var err error
	switch q.Word {
	case WordShow:
		a, err = lo.show(ctx, member, q.ID)
	case WordTake:
		if box, err := lo.pause(ctx, member, q); err == nil {
			return lo.offer(ctx, q.ID, g, box, w)
		} else if agentbox.CodeOf(err) == agentbox.Forbidden {
			a.Refused = true
		} else {
			a.Failed = failure(err)
		}
	case WordMine:
		a = lo.give(ctx, q.ID, g)
	case WordRuns:
		err = lo.Boxes.Runs(ctx, q.ID, g)
	case WordBack:
		err = lo.Boxes.TakeBack(ctx, q.ID, g)
	case WordReturn:
		if err = lo.comesBack(ctx, member, q); agentbox.CodeOf(err) == agentbox.Forbidden {
			a.Refused, err = true, nil
		}
	default:
		a.Refused = true
	}
	if err != nil {
		a.Failed = failure(err)
	}
	if err := wire.WriteMessage(w, a); err != nil {
		return err
	}
	return w.Close()
}

func (lo *LiveOwner) show(ctx context.Context, member identity.PeerID, name string) (a LiveAnswer, err error) {
	id, err := lo.May(ctx, name, member)
	if code := agentbox.CodeOf(err); code == agentbox.Forbidden || code == agentbox.NotFound {
		return LiveAnswer{Refused: true}, nil
	}
	if err != nil {
		return a, err
	}
	l, err := lo.Boxes.Show(ctx, id)
	if err == nil {
		l.ID, a.Live = id, &l
	}
	return a, err
}

func (lo *LiveOwner) comesBack(ctx context.Context, member identity.PeerID, q Said) error {
	if q.Live == nil || q.Token == "" {
		return agentbox.Errorf(agentbox.Forbidden, "it does not say what goes back")
	}
	q.Live.Peer = member.String() // whatever it says
	return lo.Return(ctx, member, q)
}

func (lo *LiveOwner) pause(ctx context.Context, member identity.PeerID, q Said) (MovingBox, error) {
	id, err := lo.May(ctx, q.ID, member)
	if err != nil || id != q.ID || len(q.Token) < minToken {
		return nil, agentbox.Errorf(agentbox.Forbidden, "it may not be taken")
	}
	return lo.Boxes.Pause(ctx, id)
}

// minToken keeps a token from being guessed.
const minToken = 20

// offer sends a paused box, and keeps it paused until the taker says that it has all or hangs up.
func (lo *LiveOwner) offer(ctx context.Context, id string, g api.LiveMove, box MovingBox, w io.ReadWriteCloser) error {
	defer box.Release()
	at := &offer{asked: make(chan struct{}), done: make(chan struct{}), answer: LiveAnswer{No: true}}
	if !lo.put(g, at) {
		return box.GoOn() // somebody uses a token twice
	}
	err := send(ctx, box, w)
	if err == nil {
		select {
		case <-at.asked:
			if err = box.HandOver(g); err == nil {
				at.answer = LiveAnswer{}
			}
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil { // it was not handed over, and never will be to this token
		if gone := box.GoOn(); gone != nil {
			lo.Failed(id, gone)
		}
	}
	lo.mu.Lock()
	delete(lo.offers, g)
	lo.mu.Unlock()
	close(at.done)
	return err
}

func (lo *LiveOwner) put(g api.LiveMove, at *offer) bool {
	lo.mu.Lock()
	defer lo.mu.Unlock()
	if lo.offers == nil {
		lo.offers = map[api.LiveMove]*offer{}
	}
	if lo.offers[g] != nil {
		return false
	}
	lo.offers[g] = at
	return true
}

func send(ctx context.Context, box MovingBox, w io.ReadWriteCloser) error {
	a := LiveAnswer{}
	var err error
	if a.Seed, a.Authority, err = box.Relies(); err != nil {
		return err
	}
	if err := wire.WriteMessage(w, a); err != nil {
		return err
	}
	if err := box.Send(ctx, w); err != nil {
		return err
	}
	return w.Close()
}

// give answers WordMine: what is offered for the token is decided now, else what was recorded counts.
func (lo *LiveOwner) give(ctx context.Context, id string, g api.LiveMove) LiveAnswer {
	lo.mu.Lock()
	at := lo.offers[g]
	if at != nil && !at.known {
		at.known = true
		close(at.asked)
	}
	lo.mu.Unlock()
	if at != nil {
		<-at.done
		return at.answer
	}
	now, ok := lo.Boxes.MovedTo(ctx, id)
	return LiveAnswer{No: !ok || now != g}
}

// LiveTo is a connection to the owner of a box.
type LiveTo struct{ Conn *wire.Conn }

// Say says a word that one message answers. The error is Forbidden if this machine may not have the box,
// NotFound if it is not the token's, Conflict if it cannot move, Unavailable without an answer.
func (l LiveTo) Say(ctx context.Context, q Said) (a LiveAnswer, err error) {
	if err := l.Conn.Ask(ctx, q, &a, maxLive); err != nil {
		return a, err
	}
	return a, a.err()
}

// Take asks for a box, and returns what was saved of it.
func (l LiveTo) Take(ctx context.Context, q Said) (a LiveAnswer, from io.ReadWriteCloser, err error) {
	s, err := l.Conn.OpenStream(ctx)
	if err != nil {
		return a, nil, err
	}
	if err = wire.WriteMessage(s, q); err == nil {
		err = wire.ReadMessage(s, &a, maxLive)
	}
	if err == nil {
		err = a.err()
	}
	if err != nil {
		s.Abort()
		return a, nil, err
	}
	return a, aborting{s}, nil
}

type aborting struct{ *wire.Stream }

func (a aborting) Close() error { a.Abort(); return nil }

func (la LiveAnswer) err() error {
	switch {
	case la.Refused:
		return agentbox.Errorf(agentbox.Forbidden, "you may not take it")
	case la.Failed != "":
		return agentbox.Errorf(agentbox.Conflict, "%s", agentbox.Printable(la.Failed[:min(len(la.Failed), maxFailed)]))
	case la.No:
		return agentbox.Errorf(agentbox.NotFound, "it was not handed over")
	}
	return nil
}
