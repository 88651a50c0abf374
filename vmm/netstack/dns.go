package netstack

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"agentbox/agentbox"
	"agentbox/vmm/guest/protocol"
)

// resolver answers DNS queries by itself: an allowed name has its synthetic address and no other
// records, and any other name does not exist. A query to a resolver of the host would be a way out
// for data (a name can carry 200 bytes), and would tell the box what the host's resolver knows. The
// methods may be called from any goroutine.
type resolver struct {
	names    *names
	lookup   func(context.Context, Question) error
	attempts *attempts
}

// nameTTL is for how many seconds the box may cache an answer. Each connection is decided about
// anew, so this matters only for names that are evicted.
const nameTTL = 60

// maxQuery is the most bytes of a query: more than one with one name and EDNS padding has. Longer
// messages are dropped.
const maxQuery = 1232

// answer returns the response to a message. It is nil for messages that are too long, malformed or
// responses. The response is authoritative, and repeats ID and RecursionDesired of the query.
func (r *resolver) answer(ctx context.Context, message []byte) []byte {
	if len(message) > maxQuery {
		r.refuse("a message of %d bytes", len(message))
		return nil
	}
	var p dnsmessage.Parser
	h, err := p.Start(message)
	if err != nil || h.Response {
		r.refuse("%d bytes that are no question", len(message))
		return nil
	}
	reply := dnsmessage.Message{Header: dnsmessage.Header{
		ID: h.ID, Response: true, OpCode: h.OpCode, Authoritative: true, RecursionDesired: h.RecursionDesired, RecursionAvailable: true,
	}}
	questions, err := p.AllQuestions()
	switch {
	case err != nil || len(questions) != 1:
		r.refuse("a message with %d sound questions", len(questions))
		reply.RCode = dnsmessage.RCodeFormatError
	case h.OpCode != 0:
		r.refuse("an operation %d that is no query", h.OpCode)
		reply.RCode = dnsmessage.RCodeNotImplemented
	default:
		reply.Questions = questions
		reply.Answers, reply.RCode = r.resolve(ctx, questions[0])
	}
	packed, err := reply.Pack()
	if err != nil {
		return nil
	}
	return packed
}

// resolve answers a question. The handler decides whether the name exists, each time anew. The only
// addresses are A records, since the cable carries no IPv6; for other types the name has no
// records.
func (r *resolver) resolve(ctx context.Context, q dnsmessage.Question) ([]dnsmessage.Resource, dnsmessage.RCode) {
	is := func(body dnsmessage.ResourceBody) []dnsmessage.Resource {
		return []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: nameTTL}, Body: body}}
	}
	if addr, ok := reverse(q); ok {
		name, err := dnsmessage.NewName(r.names.nameOf(addr) + ".")
		if err != nil || name.Length == 1 {
			return nil, dnsmessage.RCodeNameError
		}
		return is(&dnsmessage.PTRResource{PTR: name}), dnsmessage.RCodeSuccess
	}
	name, ok := canonical(q.Name.String())
	if !ok || q.Class != dnsmessage.ClassINET {
		r.refuse("a question of class %d for an impossible name of %d bytes", q.Class, q.Name.Length)
		return nil, dnsmessage.RCodeNameError
	}
	if err := r.lookup(ctx, Question{Name: name, Type: uint16(q.Type)}); err != nil {
		return nil, dnsmessage.RCodeNameError
	}
	addr := r.names.addrOf(name)
	if q.Type != dnsmessage.TypeA {
		return nil, dnsmessage.RCodeSuccess
	}
	return is(&dnsmessage.AResource{A: addr.As4()}), dnsmessage.RCodeSuccess
}

// serveStream answers queries over TCP, where each message has its length in two bytes before it
// (RFC 1035, 4.2.2). It returns at the end of the stream, after 10 s without a query, and at the
// first bad message.
func (r *resolver) serveStream(ctx context.Context, c net.Conn) error {
	const idle = 10 * time.Second
	buf := make([]byte, 2+maxQuery)
	for {
		if err := c.SetDeadline(time.Now().Add(idle)); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, buf[:2]); err != nil {
			return nil // the guest has no more queries
		}
		n := int(binary.BigEndian.Uint16(buf))
		if n > maxQuery {
			r.refuse("a message of %d bytes", n)
			return errors.New("a message that is too long")
		}
		if _, err := io.ReadFull(c, buf[:n]); err != nil {
			return err
		}
		answer := r.answer(ctx, buf[:n])
		if answer == nil {
			return errors.New("a message that is no question")
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return err
		}
	}
}

// refuse reports a message that no correct resolver sends. The text never contains a name from it.
func (r *resolver) refuse(format string, args ...any) {
	r.attempts.add(KindDNS, func() string { return fmt.Sprintf(format, args...) })
}

// hostName matches labels of 1 to 63 characters that host names may have.
var hostName = agentbox.Pattern(`^[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*$`)

// canonical returns a name as the policy has it: in lower case, without a dot at the end. ok is
// false if it is no host name or longer than 253 bytes.
func canonical(s string) (name string, ok bool) {
	const maxName = 253
	s = strings.TrimSuffix(s, ".")
	if len(s) > maxName || !hostName().MatchString(s) {
		return "", false
	}
	return strings.ToLower(s), true
}

func reverse(q dnsmessage.Question) (netip.Addr, bool) {
	s, ok := strings.CutSuffix(strings.ToLower(q.Name.String()), ".in-addr.arpa.")
	if !ok || q.Type != dnsmessage.TypePTR || q.Class != dnsmessage.ClassINET {
		return netip.Addr{}, false
	}
	backwards, err := netip.ParseAddr(s)
	if err != nil || !backwards.Is4() {
		return netip.Addr{}, false
	}
	b := backwards.As4()
	addr := netip.AddrFrom4([4]byte{b[3], b[2], b[1], b[0]})
	return addr, protocol.NameBlock.Contains(addr)
}
