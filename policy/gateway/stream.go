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

// helloTimeout is how long a client may take to say what it wants. Emulated machines are slow.
const helloTimeout = 30 * time.Second

// stream is one TCP connection of the box. It is one goroutine's, but for away, and for the counts
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
	// passage is how a change of policy finds the connection.
	passage *activeFlow
	away    atomic.Pointer[net.Conn] // the place outside of a connection that passes unread
}

// end closes both sides now: when a change of policy is in force nothing more passes.
func (s *stream) end() {
	_ = s.box.Close()
	if away := s.away.Load(); away != nil {
		_ = (*away).Close()
	}
}

// Stream carries an accepted TCP connection and returns when it is over; the caller closes c then.
// CloseWrite, where c has it, ends our direction: the box reads EOF.
// Where nothing needs the inside of the connection the place outside is dialled before anything is
// read, so that a connection that fails there fails in the box too. The error says why it ended
// otherwise than by its ends; all that matters is in the log by then.
func (g *Gateway) Stream(ctx context.Context, f policy.Flow, c net.Conn) error {
	s := &stream{g: g, box: c, flow: f, begun: time.Now()}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	s.passage = &activeFlow{flow: s.flow, end: func() { cancel(); s.end() }}
	// On port 80 every request is decided; elsewhere that is known once somebody has looked.
	s.passage.unread.Store(s.flow.Port != 80)
	done, err := g.begin(g.conns, s.passage)
	if err != nil {
		return err
	}
	defer done()
	// Again, after Accept: the policy may have changed before we were registered.
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

// inside serves a connection whose requests must be seen: TLS that is opened, or plain HTTP on a
// port that is not TLS's.
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

// outside carries a connection that nothing needs the inside of: what is TLS has its name checked,
// what is HTTP its requests, and the rest passes.
func (s *stream) outside(ctx context.Context) error {
	away, err := s.g.up.dial(ctx, "tcp", s.flow)
	if err != nil {
		s.failed(err)
		return err
	}
	defer away.Close()
	s.away.Store(&away)
	// Ended while it was dialled, when end found no connection to close.
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

// pass carries TLS as it is, with its name checked: the hello goes on as it came.
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

// any carries a connection to a port that may speak anything. The server may speak first (SSH,
// SMTP, MySQL), so its bytes pass at once; the client's first bytes say whether there is something
// to check.
//
// Whichever comes first decides: once the server has said something the connection passes unread,
// as no request can be served on it any more. TLS is found there too, its name checked, and passes.
func (s *stream) any(ctx context.Context, away net.Conn) error {
	var spoken atomic.Bool // one side has, and has the connection
	back := make(chan error, 1)
	go func() { back <- s.answers(away, &spoken) }()
	err := s.peekRequest()
	if err == nil && isTLS(s.first) {
		_, err = s.hello()
	}
	if err == nil && isRequest(s.first) && spoken.CompareAndSwap(false, true) {
		// The connection was not needed: each request is decided, and sent on one of its own.
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

// answers carries what the server says, unless the client's requests were taken over before it said
// anything.
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

// failed records a connection that was allowed and came to nothing. One that the policy refused is
// recorded already.
func (s *stream) failed(err error) {
	if _, refused := errors.AsType[*Refusal](err); refused {
		return
	}
	v := s.verdict
	v.Kind, v.Reason = "failed", v.Reason+", but: "+err.Error()
	s.g.audit.record(s.traffic.entry(s.flow, v, netip.Addr{}, s.begun))
}

// peek reads what the box says first. On port 443 that is TLS, or the end.
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

// silent is the error of a client that connects and does not say what it wants.
func (s *stream) silent(err error) error {
	if errors.Is(err, io.EOF) {
		return err // a port scan, or a client that thought better of it: nothing was asked
	}
	return s.g.refuse(s.flow, "slow", fmt.Sprintf("the client said nothing that could be checked: %v", err))
}

// peekRequest reads as much as it takes to tell a request of HTTP from anything else. It has no
// deadline: in many protocols the server speaks first, and for as long as it likes.
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

// hello reads the ClientHello and checks its name; a wrong one is told by a TLS alert. s.first then
// is all that was read.
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

// alertUnrecognizedName is a TLS alert as anybody may send it before anything is encrypted.
var alertUnrecognizedName = []byte{21, 3, 3, 0, 2, 2, 112}

// notTLS refuses what is not TLS on its port, in words if it seems to be a request.
func (s *stream) notTLS() error {
	refusal := s.g.refuse(s.flow, "not-tls", onlyTLS)
	if mayBeRequest(s.first) {
		writeRefusal(s.box, refusal)
	}
	return refusal
}

// isTLS tells whether b begins as a record of a TLS handshake does.
func isTLS(b []byte) bool { return len(b) > 0 && b[0] == 22 }

// isRequest tells whether b begins as a request of HTTP/1 does: a method in capitals and a space.
// The preface of HTTP/2 is none, since nothing in it can be checked here: it passes where the rule
// is for the port as a whole.
func isRequest(b []byte) bool {
	method, _, ok := bytes.Cut(b, []byte(" "))
	return ok && isMethod(method) && string(method) != "PRI"
}

// mayBeRequest tells whether b could be the beginning of a request.
func mayBeRequest(b []byte) bool { return isRequest(b) || len(b) > 0 && isMethod(b) }

// maxMethod bounds a method, in bytes: IANA lists none as long.
const maxMethod = 24

// isMethod tells whether b is a method as our rules and every server read it: capitals, hyphens and
// underscores.
func isMethod(b []byte) bool {
	return len(b) > 0 && len(b) <= maxMethod && len(bytes.Trim(b, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_")) == 0
}
