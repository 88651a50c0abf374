package gateway

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"agentbox/policy"
)

// helloTimeout is how long a client may take to send its first bytes. Emulated machines are slow.
const helloTimeout = 30 * time.Second

// stream is one TCP connection of the box, of one goroutine but for outgoing and traffic.
type stream struct {
	g *Gateway
	// box is the box's end. The caller of Stream closes it.
	box     net.Conn
	flow    policy.Flow    // Proto is TCP, then TLS once that is seen
	verdict policy.Verdict // of the connection
	traffic traffic
	started time.Time
	peeked  []byte // read from the box already
	// active registers the connection for changes of policy.
	active *activeFlow
	// outgoing is the connection to the server, where the bytes pass without being decided.
	outgoing atomic.Pointer[net.Conn]
}

// end closes both sides: nothing more passes once a changed policy is in force.
func (s *stream) end() {
	_ = s.box.Close()
	if away := s.outgoing.Load(); away != nil {
		_ = (*away).Close()
	}
}

// Stream carries an accepted TCP connection and returns when it is over; then the caller closes c.
// If c has CloseWrite, it ends our direction, and the box reads EOF. If nothing needs to see inside
// the connection, the destination is dialled before anything is read, so that a connection that
// fails there also fails in the box. The error says why it ended other than by its ends; everything
// that matters was logged.
func (g *Gateway) Stream(ctx context.Context, f policy.Flow, c net.Conn) error {
	s := &stream{g: g, box: c, flow: f, started: time.Now()}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	s.active = &activeFlow{flow: s.flow, end: func() { cancel(); s.end() }}
	// On port 80 every request is decided. Elsewhere that depends on the first bytes.
	s.active.uninspected.Store(s.flow.Port != 80)
	done, err := g.begin(g.conns, s.active)
	if err != nil {
		return err
	}
	defer done()
	// The policy may have changed between Accept and the registration.
	rules := g.rules()
	s.verdict = rules.connect(f)
	answers := !s.verdict.Allow && rules.Policy.Answers(f)
	if !s.verdict.Allow && !answers {
		return g.deny(f, s.verdict)
	}
	switch {
	case s.flow.Port == 80:
		return s.http(ctx)
	case s.verdict.NeedsInspection, answers: // each request is decided, and denied by the same rules
		return s.inspect(ctx)
	}
	return s.passThrough(ctx)
}

func (s *stream) http(ctx context.Context) error {
	return s.g.web.serve(ctx, s, &replay{Conn: s.box, first: s.peeked})
}

// inspect serves a connection whose requests must be seen: TLS, which is decrypted, or plain HTTP
// on a port other than 443.
func (s *stream) inspect(ctx context.Context) error {
	s.active.uninspected.Store(false)
	if err := s.peek(); err != nil {
		return err
	}
	if !isTLS(s.peeked) {
		return s.http(ctx)
	}
	h, err := s.hello()
	if err != nil {
		return err
	}
	return s.g.web.open(ctx, s, h)
}

// passThrough carries a connection whose inside nothing needs to see. The name in TLS is checked,
// HTTP requests are decided, and the rest passes.
func (s *stream) passThrough(ctx context.Context) error {
	away, err := s.g.up.dial(ctx, "tcp", s.flow)
	if err != nil {
		s.failed(err)
		return err
	}
	defer away.Close()
	s.outgoing.Store(&away)
	// end may have been called while there was no connection to close.
	if ctx.Err() != nil {
		return ctx.Err()
	}
	stop := context.AfterFunc(ctx, func() { _ = away.Close() })
	defer stop()
	if s.flow.Port == 443 {
		return s.passTLS(away)
	}
	return s.passUnlessHTTP(ctx, away)
}

// passTLS checks the name in a ClientHello, and passes TLS on unchanged.
func (s *stream) passTLS(away net.Conn) error {
	if err := s.peek(); err != nil {
		return err
	}
	h, err := s.hello()
	if err != nil {
		return err
	}
	if _, err := away.Write(h.raw); err != nil {
		return err
	}
	s.traffic.sent.Add(int64(len(h.raw)))
	err = splice(s.box, away, &s.traffic)
	s.record(away)
	return err
}

// passUnlessHTTP carries a connection to a port that may speak any protocol. The server may speak
// first (SSH, SMTP, MySQL), so its bytes pass at once. The client's first bytes show whether there
// is something to check.
//
// The side that sends first decides. Once the server has, the connection passes without being
// decided, because no request can be served on it. TLS is recognized there too; its name is checked
// and it passes.
func (s *stream) passUnlessHTTP(ctx context.Context, away net.Conn) error {
	var claimed atomic.Bool // set by the side that sent first
	back := make(chan error, 1)
	go func() { back <- s.copyResponse(away, &claimed) }()
	err := s.peekRequest()
	if err == nil && isTLS(s.peeked) {
		_, err = s.hello()
	}
	if err == nil && isRequest(s.peeked) && claimed.CompareAndSwap(false, true) {
		// Each request is decided and sent on a connection of its own.
		s.active.uninspected.Store(false)
		_ = away.Close()
		<-back
		return s.http(ctx)
	}
	if err != nil {
		_ = away.Close()
		<-back
		return err
	}
	err = copyOneWay(away, &replay{Conn: s.box, first: s.peeked}, &s.traffic.sent)
	err = cmp.Or(err, <-back)
	s.record(away)
	return err
}

// copyResponse passes on what the server sends, unless the client's first bytes were an HTTP
// request, which claimed says.
func (s *stream) copyResponse(away net.Conn, claimed *atomic.Bool) error {
	b := make([]byte, 4<<10)
	n, err := away.Read(b)
	if !claimed.CompareAndSwap(false, true) {
		return nil
	}
	if err != nil && n == 0 {
		_ = closeWrite(s.box)
		return nil
	}
	return copyOneWay(s.box, &replay{Conn: away, first: b[:n]}, &s.traffic.received)
}

// record writes the audit entry of a connection that was carried.
func (s *stream) record(away net.Conn) {
	s.g.audit.record(s.traffic.entry(s.flow, s.verdict, dialledAddr(away), s.started))
}

// failed records an allowed connection that failed. One that the policy refused was recorded.
func (s *stream) failed(err error) {
	if _, refused := errors.AsType[*Refusal](err); refused {
		return
	}
	v := s.verdict
	v.Kind, v.Reason = "failed", v.Reason+", but: "+err.Error()
	s.g.audit.record(s.traffic.entry(s.flow, v, netip.Addr{}, s.started))
}

// peek reads the box's first bytes. On port 443 they must be TLS.
func (s *stream) peek() error {
	b := make([]byte, 512)
	_ = s.box.SetReadDeadline(time.Now().Add(helloTimeout))
	n, err := io.ReadAtLeast(s.box, b, 1)
	if s.peeked = b[:n]; err != nil {
		return s.noData(err)
	}
	if s.flow.Port == 443 && !isTLS(s.peeked) {
		return s.notTLS()
	}
	return s.box.SetReadDeadline(time.Time{})
}

// noData is the error of a client that connects and sends nothing.
func (s *stream) noData(err error) error {
	if errors.Is(err, io.EOF) {
		return err // nothing was asked for, as by a port scan
	}
	return s.g.refuse(s.flow, "slow", fmt.Sprintf("the client sent nothing that could be checked: %v", err))
}

// peekRequest reads enough to tell an HTTP request from anything else. It has no deadline, because
// in many protocols the server speaks first, for as long as it likes.
func (s *stream) peekRequest() error {
	b := make([]byte, 512)
	for len(s.peeked) == 0 || mayBeRequest(s.peeked) && !isRequest(s.peeked) {
		n, err := s.box.Read(b)
		s.peeked = append(s.peeked, b[:n]...)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hello reads the ClientHello and checks its name; a wrong name is answered by a TLS alert.
// s.peeked is everything that was read.
func (s *stream) hello() (hello, error) {
	_ = s.box.SetReadDeadline(time.Now().Add(helloTimeout))
	h, err := readHello(&replay{Conn: s.box, first: s.peeked})
	_ = s.box.SetReadDeadline(time.Time{})
	s.peeked = h.raw
	s.flow.Proto = policy.TLS
	if err != nil {
		return h, s.g.refuse(s.flow, "hello", fmt.Sprintf("no ClientHello that could be read: %v", err))
	}
	if reason := s.checkName(h.name); reason != "" {
		_, _ = s.box.Write(alertUnrecognizedName)
		return h, s.g.refuse(s.flow, "sni", reason)
	}
	return h, nil
}

// checkName says what is wrong with a TLS server name, "" if nothing is.
func (s *stream) checkName(name string) string {
	if s.flow.Name == "" {
		if name != "" {
			return fmt.Sprintf("the TLS server name %q was not looked up: the connection is to a bare address", name)
		}
		return ""
	}
	canonical, err := policy.CanonicalName(name)
	switch {
	case name == "":
		return "the TLS client names no server"
	case err != nil:
		return fmt.Sprintf("the TLS server name is not a host name: %v", err)
	case canonical != s.flow.Name:
		return fmt.Sprintf("the TLS server name is %q, the connection is to %s", canonical, s.flow.Name)
	}
	return ""
}

// alertUnrecognizedName is a TLS alert in the clear, as it is sent before encryption starts.
var alertUnrecognizedName = []byte{21, 3, 3, 0, 2, 2, 112}

// notTLS refuses what is not TLS on port 443, with a response if it looks like a request.
func (s *stream) notTLS() error {
	refusal := s.g.refuse(s.flow, "not-tls", onlyTLS)
	if mayBeRequest(s.peeked) {
		writeRefusal(s.box, refusal)
	}
	return refusal
}

// isTLS tells whether b begins like a TLS handshake record.
func isTLS(b []byte) bool { return len(b) > 0 && b[0] == 22 }

// isRequest tells whether b begins like an HTTP/1 request: a method in capitals and a space. The
// preface of HTTP/2 does not count, since nothing in it can be checked here. It passes if the rule
// is for the whole port.
func isRequest(b []byte) bool {
	method, _, ok := bytes.Cut(b, []byte(" "))
	return ok && isMethod(method) && string(method) != "PRI"
}

// mayBeRequest tells whether b could become the beginning of a request.
func mayBeRequest(b []byte) bool { return isRequest(b) || len(b) > 0 && isMethod(b) }

// maxMethod bounds a method, in bytes. IANA lists none as long.
const maxMethod = 24

// isMethod tells whether b is a method: capitals, hyphens and underscores.
func isMethod(b []byte) bool {
	return len(b) > 0 && len(b) <= maxMethod && len(bytes.Trim(b, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_")) == 0
}
