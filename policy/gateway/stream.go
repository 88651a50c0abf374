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

// stream is one TCP connection of the box. It belongs to one goroutine, except away and the counts
// in traffic.
type stream struct {
	g *Gateway
	// box is the box's end. The caller of Stream closes it.
	box     net.Conn
	flow    policy.Flow    // Proto is TCP, then TLS once that is seen
	verdict policy.Verdict // of the connection
	traffic traffic
	begun   time.Time
	first   []byte // read from the box already
	// passage registers the connection for changes of policy.
	passage *activeFlow
	away    atomic.Pointer[net.Conn] // the outgoing connection of one that passes unread
}

// end closes both sides: nothing more passes once a changed policy is in force.
func (s *stream) end() {
	_ = s.box.Close()
	if away := s.away.Load(); away != nil {
		_ = (*away).Close()
	}
}

// Stream carries an accepted TCP connection and returns when it is over; then the caller closes c.
// If c has CloseWrite, it ends our direction, and the box reads EOF. If nothing needs to see inside
// the connection, the destination is dialled before anything is read, so that a connection that
// fails there also fails in the box. The error says why it ended other than by its ends; everything
// that matters was logged.
func (g *Gateway) Stream(ctx context.Context, f policy.Flow, c net.Conn) error {
	s := &stream{g: g, box: c, flow: f, begun: time.Now()}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	s.passage = &activeFlow{flow: s.flow, end: func() { cancel(); s.end() }}
	// On port 80 every request is decided. Elsewhere that depends on the first bytes.
	s.passage.unread.Store(s.flow.Port != 80)
	done, err := g.begin(g.conns, s.passage)
	if err != nil {
		return err
	}
	defer done()
	// The policy may have changed between Accept and the registration.
	if s.verdict = g.rules().connect(f); !s.verdict.Allow {
		return g.deny(f, s.verdict)
	}
	switch {
	case s.flow.Port == 80:
		return s.http(ctx)
	case s.verdict.Inside:
		return s.inside(ctx)
	}
	return s.outside(ctx)
}

// http serves requests in the clear.
func (s *stream) http(ctx context.Context) error {
	return s.g.web.serve(ctx, s, &replay{Conn: s.box, first: s.first})
}

// inside serves a connection whose requests must be seen: TLS, which is decrypted, or plain HTTP on
// a port other than 443.
func (s *stream) inside(ctx context.Context) error {
	s.passage.unread.Store(false)
	if err := s.peek(); err != nil {
		return err
	}
	if !isTLS(s.first) {
		return s.http(ctx)
	}
	h, err := s.hello()
	if err != nil {
		return err
	}
	return s.g.web.open(ctx, s, h)
}

// outside carries a connection whose inside nothing needs to see. The name in TLS is checked, HTTP
// requests are decided, and the rest passes.
func (s *stream) outside(ctx context.Context) error {
	away, err := s.g.up.dial(ctx, "tcp", s.flow)
	if err != nil {
		s.failed(err)
		return err
	}
	defer away.Close()
	s.away.Store(&away)
	// end may have been called while there was no connection to close.
	if ctx.Err() != nil {
		return ctx.Err()
	}
	stop := context.AfterFunc(ctx, func() { _ = away.Close() })
	defer stop()
	if s.flow.Port == 443 {
		return s.pass(away)
	}
	return s.any(ctx, away)
}

// pass checks the name in a ClientHello, and passes TLS on unchanged.
func (s *stream) pass(away net.Conn) error {
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
	s.over(away)
	return err
}

// any carries a connection to a port that may speak any protocol. The server may speak first (SSH,
// SMTP, MySQL), so its bytes pass at once. The client's first bytes show whether there is something
// to check.
//
// The side that speaks first decides. Once the server has, the connection passes unread, because no
// request can be served on it. TLS is recognized there too; its name is checked and it passes.
func (s *stream) any(ctx context.Context, away net.Conn) error {
	var spoken atomic.Bool // set by the side that spoke first
	back := make(chan error, 1)
	go func() { back <- s.answers(away, &spoken) }()
	err := s.peekRequest()
	if err == nil && isTLS(s.first) {
		_, err = s.hello()
	}
	if err == nil && isRequest(s.first) && spoken.CompareAndSwap(false, true) {
		// Each request is decided and sent on a connection of its own.
		s.passage.unread.Store(false)
		_ = away.Close()
		<-back
		return s.http(ctx)
	}
	if err != nil {
		_ = away.Close()
		<-back
		return err
	}
	err = copyOneWay(away, &replay{Conn: s.box, first: s.first}, &s.traffic.sent)
	err = cmp.Or(err, <-back)
	s.over(away)
	return err
}

// answers passes on what the server sends, unless requests of the client were taken over first.
func (s *stream) answers(away net.Conn, spoken *atomic.Bool) error {
	b := make([]byte, 4<<10)
	n, err := away.Read(b)
	if !spoken.CompareAndSwap(false, true) {
		return nil
	}
	if err != nil && n == 0 {
		_ = closeWrite(s.box)
		return nil
	}
	return copyOneWay(s.box, &replay{Conn: away, first: b[:n]}, &s.traffic.got)
}

// over records a connection that was carried.
func (s *stream) over(away net.Conn) {
	s.g.audit.record(s.traffic.entry(s.flow, s.verdict, dialledAddr(away), s.begun))
}

// failed records an allowed connection that failed. One that the policy refused was recorded.
func (s *stream) failed(err error) {
	if _, refused := errors.AsType[*Refusal](err); refused {
		return
	}
	v := s.verdict
	v.Kind, v.Reason = "failed", v.Reason+", but: "+err.Error()
	s.g.audit.record(s.traffic.entry(s.flow, v, netip.Addr{}, s.begun))
}

// peek reads the box's first bytes. On port 443 they must be TLS.
func (s *stream) peek() error {
	b := make([]byte, 512)
	_ = s.box.SetReadDeadline(time.Now().Add(helloTimeout))
	n, err := io.ReadAtLeast(s.box, b, 1)
	if s.first = b[:n]; err != nil {
		return s.silent(err)
	}
	if s.flow.Port == 443 && !isTLS(s.first) {
		return s.notTLS()
	}
	return s.box.SetReadDeadline(time.Time{})
}

// silent is the error of a client that connects and sends nothing.
func (s *stream) silent(err error) error {
	if errors.Is(err, io.EOF) {
		return err // nothing was asked for, as by a port scan
	}
	return s.g.refuse(s.flow, "slow", fmt.Sprintf("the client said nothing that could be checked: %v", err))
}

// peekRequest reads enough to tell an HTTP request from anything else. It has no deadline, because
// in many protocols the server speaks first, for as long as it likes.
func (s *stream) peekRequest() error {
	b := make([]byte, 512)
	for len(s.first) == 0 || mayBeRequest(s.first) && !isRequest(s.first) {
		n, err := s.box.Read(b)
		s.first = append(s.first, b[:n]...)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hello reads the ClientHello and checks its name; a wrong name is answered by a TLS alert. s.first
// is everything that was read.
func (s *stream) hello() (hello, error) {
	_ = s.box.SetReadDeadline(time.Now().Add(helloTimeout))
	h, err := readHello(&replay{Conn: s.box, first: s.first})
	_ = s.box.SetReadDeadline(time.Time{})
	s.first = h.raw
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
	if mayBeRequest(s.first) {
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

// isMethod tells whether b is a method as rules and servers read it: capitals, hyphens and
// underscores.
func isMethod(b []byte) bool {
	return len(b) > 0 && len(b) <= maxMethod && len(bytes.Trim(b, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_")) == 0
}
