package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"agentbox/policy"
)

// Resolver gives a name's addresses. name is canonical. What it says is only what is tried: each
// address is decided about.
type Resolver func(ctx context.Context, name string) ([]netip.Addr, error)

// Evaluator takes the decisions that a flow meets on its way: about its name, its connection, its
// request and each address. A gateway takes them one by one, as the flow comes to them; Check takes
// them all, for a person who asks beforehand. There is no other code that decides, so both say the
// same.
//
// A Policy is required.
type Evaluator struct {
	// Policy decides; it never changes, so an Evaluator is made for each question of a gateway.
	Policy  *policy.Policy
	Resolve Resolver // nil means the host's
}

// refused is a verdict that no rule can change; kind is its word in the log.
func refused(kind, reason string) policy.Verdict {
	return policy.Verdict{Source: policy.Builtin, Kind: kind, Reason: reason}
}

// name decides about a question to the resolver.
func (e Evaluator) name(name string) policy.Verdict {
	canonical, err := policy.CanonicalName(name)
	if err != nil || canonical != name {
		return refused("dns-name", "the question is not for a host name")
	}
	return e.Policy.Decide(policy.Flow{Proto: policy.DNS, Name: name})
}

// connect decides about a connection, or a flow of datagrams, before its address is known.
func (e Evaluator) connect(f policy.Flow) policy.Verdict {
	v := e.Policy.Decide(f)
	if v.Allow && f.Proto == policy.UDP && f.Port == quicPort && !strings.HasPrefix(v.Rule, "udp://") {
		// Nothing in it can be checked, and its clients go on with TCP at once.
		return refused("quic", "QUIC is not carried: its names cannot be checked; use TCP")
	}
	return v
}

// onlyTLS is said in two places: before a request on port 443 was read, and about one that was
// asked for beforehand.
const onlyTLS = "only TLS is spoken to port 443"

// request decides about a request.
//
// A request in HTTP/2 has come without a line or a head that could be checked, so this is where its
// method and target are, as those of HTTP/1 are in parseHead.
func (e Evaluator) request(f policy.Flow) policy.Verdict {
	switch {
	case !isMethod([]byte(f.Method)) || f.Method == http.MethodConnect:
		return refused("framing", "the method is not one in capitals, or CONNECT")
	case f.Path != "*" && !strings.HasPrefix(f.Path, "/"):
		return refused("framing", "the target is not a path")
	case strings.ContainsAny(f.Path, "# \t\r\n\x00"):
		return refused("framing", "the target holds bytes that have to be encoded")
	case f.Port == 443 && !f.TLS:
		return refused("not-tls", onlyTLS)
	case f.Port == 80 && f.TLS:
		return refused("framing", "only requests in the clear are spoken to port 80")
	}
	return e.Policy.Decide(f)
}

// address decides about one of the addresses of an allowed connection.
func (e Evaluator) address(f policy.Flow, a netip.Addr) policy.Verdict {
	f.Addr, f.Method, f.Path = a.Unmap(), "", ""
	if f.Proto != policy.UDP {
		f.Proto = policy.TCP
	}
	v := e.Policy.Decide(f)
	v.Kind = "address"
	return v
}

// addresses are a flow's, most of a name's being ignored: a name with thousands is no reason to try
// them all. HostName is the host's loopback. It takes resolveTimeout at most.
func (e Evaluator) addresses(ctx context.Context, f policy.Flow) ([]netip.Addr, error) {
	switch f.Name {
	case "":
		return []netip.Addr{f.Addr}, nil
	case policy.HostName:
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	resolve := e.Resolve
	if resolve == nil {
		resolve = resolveHost
	}
	addrs, err := resolve(ctx, f.Name)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", f.Name, err)
	}
	if len(addrs) == 0 {
		return nil, errors.New("the name has no address")
	}
	// Resolvers sort by what is best to try first.
	const most = 8
	return addrs[:min(len(addrs), most)], nil
}

// resolveHost asks the host's resolver for exactly this name: the dot keeps its search list out.
func resolveHost(ctx context.Context, name string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name+".")
}

// Answer is what would happen to a flow. Without Allow, Addresses ends with one that was denied,
// and Secrets is empty.
type Answer struct {
	policy.Verdict
	Addresses []netip.Addr // those that were decided about
	Secrets   []string     // names of those that may be sent with it
}

// Check takes every decision about a flow. Of a name's addresses one that is allowed is enough: the
// gateway goes on to it. A name that has none here and now is decided about without.
func (e Evaluator) Check(ctx context.Context, f policy.Flow) Answer {
	connection := f
	connection.Method, connection.Path = "", ""
	// A request comes on a connection, which is decided about without knowing of it.
	if f.Proto == policy.HTTP {
		connection.Proto = policy.TCP
	}
	if f.Name != "" {
		if v := e.name(f.Name); !v.Allow {
			return Answer{Verdict: e.hinted(v, connection)}
		}
	}
	v := e.connect(connection)
	if v.Allow && f.Method != "" {
		v = e.request(f)
	}
	if !v.Allow {
		return Answer{Verdict: v}
	}
	return e.checkAddresses(ctx, f, connection, v)
}

// hinted is the verdict on a name with the hint for the connection: a caller that asks for a port
// is told the command that has it.
func (e Evaluator) hinted(name policy.Verdict, connection policy.Flow) policy.Verdict {
	if v := e.Policy.Decide(connection); !v.Allow {
		return v
	}
	return name
}

// checkAddresses goes on where connection and request are allowed, as v says.
func (e Evaluator) checkAddresses(ctx context.Context, f, connection policy.Flow, v policy.Verdict) Answer {
	out := Answer{Verdict: v}
	addrs, _ := e.addresses(ctx, connection) // none where it cannot be resolved
	allowed := len(addrs) == 0
	for _, a := range addrs {
		out.Addresses = append(out.Addresses, a.Unmap())
		there := e.address(connection, a)
		if allowed = allowed || there.Allow; !allowed {
			out.Verdict = there
		}
	}
	if !allowed {
		return out
	}
	out.Verdict = v
	for _, s := range e.Policy.SecretsFor(f) {
		out.Secrets = append(out.Secrets, s.Name)
	}
	return out
}

// IsOwn tells whether an address is this host's; it is for policy.New. It is asked anew each time:
// laptops move.
func IsOwn(a netip.Addr) bool {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return true // nothing that may be ours is reached by mistake
	}
	return slices.ContainsFunc(addrs, func(own net.Addr) bool {
		p, err := netip.ParsePrefix(own.String())
		return err == nil && p.Addr().Unmap() == a
	})
}
