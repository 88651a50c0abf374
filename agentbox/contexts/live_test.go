package contexts

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// pair is two machines between which one box moves. What it records is durable; a crash loses the rest.
type pair struct {
	mu    sync.Mutex
	steps int    // that were done
	crash int    // the step at which one of the two is killed, before it
	who   string // which one: owner or taker
	dead  map[string]bool

	// The owner.
	runs  bool
	saved bool
	moved *api.LiveMove
	op    sync.Mutex
	// The taker.
	step   api.Step
	here   bool // saved here
	ran    bool // it runs here, or has
	live   bool // it runs here
	gone   bool
	broken bool // it cannot be run here

	faults []string
}

var errCrash = errors.New("killed")

// do does one step of a machine, unless that is killed. Nothing runs twice after it.
func (p *pair) do(who string, f func()) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead[who] {
		return errCrash
	}
	if p.steps++; p.who == who && p.steps == p.crash {
		p.dead[who] = true
		return errCrash
	}
	f()
	if p.runs && (p.ran || p.live) {
		p.faults = append(p.faults, fmt.Sprintf("what was saved runs twice, after step %d", p.steps))
	}
	return nil
}

const boxID = "b1"

// Show implements LiveBoxes.
func (p *pair) Show(context.Context, string) (api.Live, error) { return api.Live{CPUs: 1}, nil }

func (p *pair) Pause(context.Context, string) (MovingBox, error) {
	p.op.Lock()
	var err error
	if crashed := p.do("owner", func() {
		if p.moved != nil {
			err = agentbox.Errorf(agentbox.Conflict, "it has moved")
			return
		}
		p.saved, p.runs = true, false
	}); crashed != nil || err != nil {
		p.op.Unlock()
		return nil, errors.Join(crashed, err)
	}
	return movingPair{p}, nil
}

func (p *pair) MovedTo(context.Context, string) (g api.LiveMove, ok bool) {
	_ = p.do("owner", func() {
		if ok = p.moved != nil; ok {
			g = *p.moved
		}
	})
	return g, ok
}

func (p *pair) Runs(_ context.Context, _ string, g api.LiveMove) error {
	return p.do("owner", func() {
		if p.moved != nil && *p.moved == g {
			p.saved = false
		}
	})
}

func (p *pair) TakeBack(_ context.Context, _ string, g api.LiveMove) error {
	return p.do("owner", func() {
		if p.moved != nil && *p.moved == g {
			p.moved, p.saved, p.runs = nil, false, true
		}
	})
}

type movingPair struct{ *pair }

func (p movingPair) Relies() (string, []byte, error) { return "seed", nil, p.do("owner", func() {}) }
func (p movingPair) Send(_ context.Context, to io.ReadWriter) error {
	err := p.do("owner", func() {})
	if err == nil {
		_, err = io.WriteString(to, "state")
	}
	return err
}
func (p movingPair) HandOver(g api.LiveMove) error { return p.do("owner", func() { p.moved = &g }) }
func (p movingPair) GoOn() error                   { return p.do("owner", func() { p.saved, p.runs = false, true }) }
func (p movingPair) Release()                      { p.op.Unlock() }

// arriving implements Arrival.
type arriving struct {
	*pair
	token string
}

func (a arriving) Said() Said     { return Said{ID: boxID, Token: a.token} }
func (a arriving) Step() api.Step { return a.step }
func (a arriving) Record(s api.Step) error {
	return a.do("taker", func() { a.step = s })
}
func (a arriving) Receive(_ context.Context, h LiveAnswer, from io.ReadWriteCloser) error {
	b, err := io.ReadAll(from)
	if err != nil || string(b) != "state" || h.Seed != "seed" {
		return fmt.Errorf("%q, %v", b, err)
	}
	return a.do("taker", func() { a.here = true })
}
func (a arriving) Run(context.Context) error {
	if a.broken {
		return errors.Join(a.do("taker", func() {}), errors.New("it does not start"))
	}
	return a.do("taker", func() {
		if !a.here || a.step != api.StepMine {
			a.faults = append(a.faults, "it runs without being this machine's")
		}
		a.here, a.ran, a.live = false, true, true
	})
}
func (a arriving) Ran() bool { return a.ran }
func (a arriving) Drop() error {
	return a.do("taker", func() { a.gone, a.here, a.step = true, false, api.StepSettled })
}

// dialed is a connection of the taker to an owner's process.
type dialed struct {
	ctx   context.Context
	hang  context.CancelFunc
	owner *LiveOwner
	pair  *pair
}

var taker = identity.PeerID{1}

// unavailable is the error of a connection to a process that was killed.
func (d dialed) unavailable() error {
	d.pair.mu.Lock()
	defer d.pair.mu.Unlock()
	if d.pair.dead["owner"] {
		d.hang()
		return agentbox.Errorf(agentbox.Unavailable, "the connection ended")
	}
	return nil
}

func (d dialed) Say(_ context.Context, q Said) (a LiveAnswer, err error) {
	var out buffer
	if err := d.owner.answer(d.ctx, taker, q, &out); err != nil || d.unavailable() != nil {
		return a, agentbox.Errorf(agentbox.Unavailable, "the connection ended")
	}
	if err := wire.ReadMessage(&out, &a, maxLive); err != nil {
		return a, err
	}
	return a, a.err()
}

func (d dialed) Take(_ context.Context, q Said) (a LiveAnswer, from io.ReadWriteCloser, err error) {
	ours, theirs := net.Pipe()
	go func() {
		_ = d.owner.answer(d.ctx, taker, q, theirs)
		theirs.Close()
	}()
	if err := wire.ReadMessage(ours, &a, maxLive); err != nil {
		return a, nil, err
	}
	return a, ours, a.err()
}

type buffer struct{ bytes.Buffer }

func (*buffer) Close() error { return nil }

// dial connects to a process of the owner, a new one if the last was killed.
func (p *pair) dial(t *testing.T) dialed {
	ctx, hang := context.WithCancel(t.Context())
	comesBack := func(_ context.Context, member identity.PeerID, q Said) error {
		if q.ID != boxID || q.Live.Peer != member.String() {
			return agentbox.Errorf(agentbox.Forbidden, "no")
		}
		return agentbox.Errorf(agentbox.Conflict, "it has gone on")
	}
	o := &LiveOwner{Boxes: p, Failed: func(string, error) {}, Return: comesBack, May: func(_ context.Context, name string, member identity.PeerID) (string, error) {
		if name != boxID || member != taker {
			return "", agentbox.Errorf(agentbox.Forbidden, "no")
		}
		return boxID, nil
	}}
	return dialed{ctx, hang, o, p}
}

// settle restarts what was killed, and settles.
func (p *pair) settle(t *testing.T, box arriving) {
	p.mu.Lock()
	restarted := p.dead["owner"]
	p.dead, p.crash = map[string]bool{}, 0
	if restarted && p.saved && p.moved == nil { // its user resumes it
		p.saved, p.runs = false, true
	}
	p.mu.Unlock()
	if box.step == api.StepNew { // removed by the next daemon
		p.here = false
		return
	}
	for range 3 {
		d := p.dial(t)
		if err := Settle(d.ctx, d, box); err != nil && agentbox.CodeOf(err) != agentbox.Conflict {
			t.Errorf("step %s cannot be settled: %v", box.step, err)
		}
		d.hang()
		if box.step == api.StepMine && !p.ran && !p.broken { // its user resumes it
			if err := box.Run(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

// Each side is killed at each step, and in the end what was saved is on one side, and never ran on both.
func TestLiveMoveIsKilledAtEachStep(t *testing.T) {
	for _, broken := range []bool{false, true} {
		for _, who := range []string{"", "owner", "taker"} {
			killed := 0
			for crash := 1; crash <= 20; crash++ {
				p := &pair{crash: crash, who: who, dead: map[string]bool{}, runs: true, broken: broken}
				box := arriving{p, rand.Text()}
				d := p.dial(t)
				err := Move(d.ctx, d, box)
				d.hang()
				p.op.Lock() // the owner has noticed, unless it was killed
				name := fmt.Sprintf("%s killed at %d, broken %v: %v", who, crash, broken, err)
				if len(p.dead) > 0 {
					killed++
				}
				p.op.Unlock()
				p.settle(t, box)
				here, there := p.live || p.here, p.runs || p.saved && p.moved == nil // it runs, or can
				if len(p.faults) > 0 || here == there {
					t.Errorf("%s: here %v, there %v, %s", name, here, there, strings.Join(p.faults, "; "))
				}
				if who == "" && (err == nil) == broken {
					t.Error(name)
				}
			}
			if who != "" && killed < 3 {
				t.Errorf("%s was killed at %d steps", who, killed)
			}
		}
	}
}

// Whatever a member says, a box that it may not have stays as it is, and what it answers is printable.
func FuzzLive(f *testing.F) {
	f.Add([]byte(`{"word":"take","id":"b2","token":"abcdefghijklmnopqrstuvwxyz"}`), []byte(`{"failed":"\u001b[2J"}`))
	f.Add([]byte(`{"word":"return","id":"b1","token":"t","live":{"peer":"x"}}`), []byte(`{"refused":true}`))
	f.Add([]byte(`{"word":"mine","id":"b1"}`), []byte(`{"live":{"basis":{}},"no":true}`))
	f.Fuzz(func(t *testing.T, question, answer []byte) {
		p := &pair{dead: map[string]bool{}, runs: true}
		d := p.dial(t)
		d.owner.May = func(context.Context, string, identity.PeerID) (string, error) {
			return "", agentbox.Errorf(agentbox.Forbidden, "no")
		}
		var q Said
		if json.Unmarshal(question, &q) == nil {
			if _, err := d.Say(t.Context(), q); err == nil && q.Word != WordRuns && q.Word != WordBack || !p.runs || p.saved || p.moved != nil {
				t.Errorf("%v: %v", q, err)
			}
		}
		var a LiveAnswer
		if json.Unmarshal(answer, &a) == nil && a.err() != nil {
			if text := a.err().Error(); agentbox.Printable(text) != text {
				t.Errorf("%q", text)
			}
		}
	})
}

func TestLiveNeedsTheRightToTake(t *testing.T) {
	p := &pair{dead: map[string]bool{}, runs: true}
	d := p.dial(t)
	for _, q := range []Said{
		{Word: WordShow, ID: "b2"}, {Word: WordTake, ID: "b2", Token: rand.Text()}, {Word: WordTake, ID: boxID, Token: "short"}, {Word: "other", ID: boxID},
		{Word: WordReturn, ID: boxID, Token: rand.Text()}, {Word: WordReturn, ID: boxID, Live: &api.Live{}}, {Word: WordReturn, ID: "b2", Token: rand.Text(), Live: &api.Live{}},
	} {
		if _, err := d.Say(t.Context(), q); agentbox.CodeOf(err) != agentbox.Forbidden {
			t.Errorf("%v: %v", q, err)
		}
	}
	if a, err := d.Say(t.Context(), Said{Word: WordShow, ID: boxID}); err != nil || a.Live == nil || a.Live.ID != boxID {
		t.Errorf("%v, %v", a, err)
	}
	if _, err := d.Say(t.Context(), Said{Word: WordReturn, ID: boxID, Token: rand.Text(), Live: &api.Live{Peer: "another"}}); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("%v", err)
	}
	// Of what moved by another move, a member gets and changes nothing.
	p.moved, p.runs, p.saved = &api.LiveMove{Peer: taker.String(), Token: rand.Text()}, false, true
	mine := Said{Word: WordMine, ID: boxID, Token: rand.Text()}
	if _, err := d.Say(t.Context(), mine); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("another's move: %v", err)
	}
	for _, w := range []Word{WordBack, WordRuns} {
		if _, err := d.Say(t.Context(), Said{Word: w, ID: boxID, Token: mine.Token}); err != nil || p.moved == nil || !p.saved || p.runs {
			t.Errorf("%s: %v, %v", w, err, p.moved)
		}
	}
}
