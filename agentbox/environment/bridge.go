package environment

import (
	"context"
	"io"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/vmm/guest/protocol"
)

// end is one side's half of a relayed channel.
type end struct {
	ch       ssh.Channel
	requests <-chan *ssh.Request
}

// abandon closes a channel that nobody reads.
func (e end) abandon() {
	e.ch.Close()
	go ssh.DiscardRequests(e.requests)
}

// bridge joins a client's channel (front) to one in the environment (back).
//
// It keeps this order: all output reaches the client before its end of file, that before the exit
// status, that before the close. One goroutine serves each direction of bytes, and one each side's
// requests. All of them end when both channels are closed, which run sees to; those of a silent
// environment end with its connection.
//
// Requests of each side must be received at all times: the SSH library delivers all of a
// connection's messages from one goroutine, so one request that is not received blocks every other
// channel.
type bridge struct {
	// Set by the caller. Without session it carries a TCP or unix connection: no requests, no exit
	// status, and both directions may end on their own.
	session     bool
	front, back end

	started     chan struct{} // closed when a command, shell or subsystem has been started (at once without a session)
	frontClosed chan struct{}
	backClosed  chan struct{}
	exit        *ssh.Request // the last exit-status or exit-signal; read after backClosed
	answering   sync.Mutex   // held while a client's request awaits its answer: the close must not overtake it
}

// run returns when both channels are closed. The end of ctx closes them.
func (b *bridge) run(ctx context.Context) {
	b.started, b.frontClosed, b.backClosed = make(chan struct{}), make(chan struct{}), make(chan struct{})
	if !b.session {
		close(b.started)
	}
	inward := make(chan struct{})
	var outward, control sync.WaitGroup
	control.Go(b.fromFront)
	control.Go(b.fromBack)
	control.Go(func() { defer close(inward); b.copyIn() })
	outward.Go(func() { drain(b.front.ch, b.back.ch) })
	outward.Go(func() { drain(b.front.ch.Stderr(), b.back.ch.Stderr()) })

	finished := make(chan struct{})
	go func() {
		defer close(finished)
		outward.Wait()
		b.hangUp(inward)
		control.Wait()
	}()
	select {
	case <-finished:
	case <-ctx.Done():
		// The remaining goroutines end with their connections. A silent environment must not
		// delay the client's end.
		b.back.ch.Close()
		b.front.ch.Close()
	}
}

// hangUp ends the client's side after the last byte of output. inward is closed when the client's
// input has ended. A session ends with its command, whatever its client still sends; a connection
// ends when both of its directions have.
func (b *bridge) hangUp(inward <-chan struct{}) {
	select {
	case <-b.backClosed: // mostly together with its output, early enough to explain a loss
	case <-time.After(eofTime):
	}
	if b.session {
		b.explainLoss()
	}
	b.front.ch.CloseWrite()
	if !b.session {
		select {
		case <-inward:
		case <-b.backClosed:
		}
		b.back.ch.Close()
	}
	<-b.backClosed
	b.answering.Lock()
	defer b.answering.Unlock()
	if b.exit != nil && b.session {
		b.front.ch.SendRequest(b.exit.Type, false, b.exit.Payload)
	}
	b.front.ch.Close()
}

// eofTime is how long an end of file waits for the close that usually follows it. Only the close
// tells whether there is an exit status, and without one explainLoss has something to write before
// the end of file.
const eofTime = 20 * time.Millisecond

// explainLoss tells the client when its session ended without a status, unless it closed first.
func (b *bridge) explainLoss() {
	if isClosed(b.backClosed) && b.exit == nil && !isClosed(b.frontClosed) {
		b.front.ch.Stderr().Write([]byte(lostMessage))
	}
}

// lostMessage is for users of a stock ssh, which would print nothing. It ends in \r\n, because
// their terminal may be raw.
const lostMessage = "agentbox: the box closed the session before the command ended (it was stopped, paused or reset, " +
	"or its connection was lost)\r\n"

// copyIn copies the client's input. It waits until the command has started, as servers may drop
// what arrives before.
func (b *bridge) copyIn() {
	select {
	case <-b.started:
	case <-b.frontClosed:
	case <-b.backClosed:
	}
	pump(b.back.ch, b.front.ch)
	b.back.ch.CloseWrite()
}

// drain reads on when dst fails: the environment then sees the close rather than a full window.
func drain(dst io.Writer, src io.Reader) {
	if _, err := pump(dst, src); err != nil {
		pump(io.Discard, src)
	}
}

// fromFront passes the client's requests on, and its close.
func (b *bridge) fromFront() {
	defer b.back.ch.Close()
	defer close(b.frontClosed)
	started := !b.session
	for req := range b.front.requests {
		if !b.session || !allowedRequests[req.Type] {
			req.Reply(false, nil)
			continue
		}
		ok := b.pass(req)
		if startRequests[req.Type] && !started && (ok || !req.WantReply) {
			started = true
			close(b.started)
		}
	}
}

func (b *bridge) pass(req *ssh.Request) bool {
	b.answering.Lock()
	defer b.answering.Unlock()
	ok, err := b.back.ch.SendRequest(req.Type, req.WantReply, req.Payload)
	req.Reply(ok && err == nil, nil)
	return ok && err == nil
}

// allowedRequests are the session requests that a client may make of an environment. Others, such
// as auth-agent-req@openssh.com and x11-req, are refused, as they would open ways out of the
// environment.
var allowedRequests = map[string]bool{
	"env": true, "pty-req": true, "exec": true, "shell": true, "subsystem": true, protocol.Argv: true,
	"signal": true, "window-change": true, "break": true, "eow@openssh.com": true,
}

// startRequests are the requests that give a session its command, which input then goes to.
var startRequests = map[string]bool{"exec": true, "shell": true, "subsystem": true, protocol.Argv: true}

// fromBack keeps the exit status until all output is through. It never waits for the client: that
// would block every other channel of the backend.
func (b *bridge) fromBack() {
	defer close(b.backClosed)
	for req := range b.back.requests {
		if req.Type == "exit-status" || req.Type == "exit-signal" {
			b.exit = req
		}
		req.Reply(false, nil)
	}
}
