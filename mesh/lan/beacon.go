package lan

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"agentbox/agentbox/background"
)

// Config says who is to be found. All of it is required.
type Config struct {
	// Service is the name that Service gives for the team.
	Service string
	Listen  netip.AddrPort // where we are reached
	// Found gets an address at which, as anybody claims, a member is. It may not block, and gets
	// the same address again and again.
	Found func(netip.AddrPort)
	Log   *slog.Logger
}

// Times. Questions become rare, because all hear an answer and a member that arrives announces
// itself; a change of the interfaces starts over.
const (
	firstPause        = time.Second // between two questions; then twice as long, and so on
	lastPause         = time.Minute
	lookPeriod        = 3 * time.Second // how often the interfaces are looked at
	minAnswerInterval = time.Second     // between two answers: all hear each of them
	maxAnswerDelay    = 120 * time.Millisecond
)

// Beacon announces this machine and listens for others. tasks are run and, while there is a socket,
// receive; both end with Close. mu guards the fields below it.
type Beacon struct {
	cfg Config
	// instance is the name by which we announce ourselves; question and answer are the packets.
	instance         string
	question, answer []byte

	ctx   context.Context
	stop  context.CancelFunc
	tasks sync.WaitGroup
	asked background.Signal // somebody wants to know who is here

	mu sync.Mutex
	// links are the interfaces as they were last looked at.
	links  []link
	socket *socket // nil: there is no link
}

// Start starts a Beacon, which the caller closes. It does nothing if we listen on loopback only,
// where there is nobody to find. Failures are retried: a network without multicast is no error.
func Start(cfg Config) *Beacon {
	b := &Beacon{cfg: cfg, instance: strings.ToLower(rand.Text()[:12]), asked: background.NewSignal()}
	b.ctx, b.stop = context.WithCancel(context.Background())
	var err, answerErr error
	b.question, err = question(cfg.Service)
	b.answer, answerErr = answer(cfg.Service, announcement{b.instance, cfg.Listen.Port()})
	if err = errors.Join(err, answerErr); err != nil {
		cfg.Log.Error("mesh: members on this network are not looked for", "error", err)
	} else if !cfg.Listen.Addr().IsLoopback() {
		b.tasks.Go(b.run)
	}
	return b
}

// Close ends it and waits: Found is not called afterwards.
func (b *Beacon) Close() {
	b.stop()
	b.mu.Lock()
	if b.socket != nil {
		b.socket.udp.Close()
	}
	b.mu.Unlock()
	b.tasks.Wait()
}

// run asks ever less often, and starts over when the links change. One answer serves all who ask.
func (b *Beacon) run() {
	look, ask := time.NewTicker(lookPeriod), time.NewTimer(0)
	defer look.Stop()
	defer ask.Stop()
	reply := time.NewTimer(time.Hour)
	reply.Stop()
	pause := firstPause
	b.refreshLinks()
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-look.C:
			if b.refreshLinks() {
				pause = firstPause
				ask.Reset(0)
			}
		case <-ask.C:
			b.send(b.question)
			if pause <= 2*firstPause { // who waits for us need not ask
				b.send(b.answer)
			}
			ask.Reset(pause)
			pause = min(2*pause, lastPause)
		case <-b.asked:
			// Not all at the same moment. A peer that asks while this is under way hears it, too.
			reply.Reset(maxAnswerDelay/6 + mathrand.N(maxAnswerDelay*5/6))
		case <-reply.C:
			b.send(b.answer)
		}
	}
}

// refreshLinks looks up the links, and reports whether they changed. The socket is opened with the
// first link and stays when links come and go; after an error, the next call opens another one.
func (b *Beacon) refreshLinks() bool {
	now, err := links(b.cfg.Listen.Addr())
	if err != nil {
		b.cfg.Log.Debug("mesh: interfaces", "error", err)
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.EqualFunc(now, b.links, link.equal) && (b.socket != nil || len(now) == 0) || b.ctx.Err() != nil {
		return false
	}
	b.links = now
	if b.socket == nil && len(now) > 0 {
		s, err := listen(now[0])
		if err != nil {
			// The program that keeps the port to itself may give it up.
			b.cfg.Log.Debug("mesh: members on this network are not looked for", "error", err)
			return false
		}
		b.socket = s
		b.tasks.Go(func() { b.receive(s) })
	}
	if b.socket != nil {
		b.socket.join(now)
	}
	return true
}

// send sends a packet on all links, if there are any.
func (b *Beacon) send(packet []byte) {
	b.mu.Lock()
	s, list := b.socket, b.links
	b.mu.Unlock()
	if s != nil {
		s.send(list, packet)
	}
}

// receive handles packets until the socket is closed. Anybody on the network may have sent them: a
// packet only says that a member may be at an address, where wire then has it prove that. Questions
// are answered once per minAnswerInterval, however many come, so that nobody can make us flood the
// network.
func (b *Beacon) receive(s *socket) {
	buf := make([]byte, maxPacket)
	answered := time.Time{}
	for {
		n, control, from, err := s.packet.ReadFrom(buf)
		if err != nil {
			b.closeSocket(s)
			return
		}
		u, ok := from.(*net.UDPAddr)
		if !ok || control == nil {
			continue
		}
		at := u.AddrPort().Addr().Unmap()
		b.mu.Lock()
		ours := onLink(b.links, control.IfIndex, at)
		b.mu.Unlock()
		if !ours { // RFC 6762 has others ignored, as a router may have let them in
			continue
		}
		h := parse(buf[:n], b.cfg.Service)
		if h.asked && time.Since(answered) >= minAnswerInterval {
			answered = time.Now()
			b.asked.Notify()
		}
		for _, a := range h.peers {
			if a.instance != b.instance {
				b.cfg.Found(netip.AddrPortFrom(at, a.port))
			}
		}
	}
}

// closeSocket closes a socket after an error, so that refreshLinks opens another.
func (b *Beacon) closeSocket(s *socket) {
	s.udp.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.socket == s {
		b.socket = nil
	}
}
