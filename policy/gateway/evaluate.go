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

// Resolver resolves a canonical name. Its answers are not trusted: each address is decided about.
type Resolver func(ctx context.Context, name string) ([]netip.Addr, error)

// Evaluator makes the decisions about a flow: its name, its connection, its request and each
// address. A gateway makes them one by one; Check makes them all, for a person who asks beforehand.
// No other code decides, so both agree.
//
// A Policy is required.
type Evaluator struct {
	// Policy decides. It never changes; a gateway makes an Evaluator for each question.
	Policy  *policy.Policy
	Resolve Resolver // nil means the host's
}

// refused is a verdict that no rule can change; kind is for the log.
func refused(kind, reason string) policy.Verdict {
	return policy.Verdict{Source: policy.Builtin, Kind: kind, Reason: reason}
}

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
		// Nothing in it can be checked, and its clients fall back to TCP at once.
		return refused("quic", "QUIC is not carried: its names cannot be checked; use TCP")
	}
	return v
}

// onlyTLS is the reason for refusing requests in the clear on port 443.
const onlyTLS = "only TLS is spoken to port 443"

// request decides about a request.
//
// A request of HTTP/2 has no request line that could be checked, so its method and target are
// checked here, as parseHead does for HTTP/1.
func (e Evaluator) request(f policy.Flow) policy.Verdict {
	switch {
	case !isMethod([]byte(f.Method)) || f.Method == http.MethodConnect:
		return refused("framing", "the method is not one in capitals, or CONNECT")
	case f.Path != "*" && !strings.HasPrefix(f.Path, "/"):
		return refused("framing", "the target is not a path")
	case strings.ContainsAny(f.Path, "# \t\r\n\x00"):
		return refused("framing", "the target has bytes that have to be encoded")
	case f.Port == 443 && !f.TLS:
		return refused("not-tls", onlyTLS)
	case f.Port == 80 && f.TLS:
		return refused("framing", "only requests in the clear are spoken to port 80")
	}
	return e.Policy.Decide(f)
}

// address decides about one address of an allowed connection.
func (e Evaluator) address(f policy.Flow, a netip.Addr) policy.Verdict {
	f.Addr, f.Method, f.Path = a.Unmap(), "", ""
	if f.Proto != policy.UDP {
		f.Proto = policy.TCP
	}
	v := e.Policy.Decide(f)
	v.Kind = "address"
	return v
}

// addresses resolves a flow's name, and returns the first few addresses: a name with thousands is
// no reason to try them all. HostName is the host's loopback. It takes at most resolveTimeout.
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
	// Resolvers sort the best ones first.
	const most = 8
	return addrs[:min(len(addrs), most)], nil
}

// resolveHost asks the host's resolver for exactly this name; the dot disables its search list.
func resolveHost(ctx context.Context, name string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name+".")
}

// Answer is what would happen to a flow. If it is denied, the last of Addresses is the denied one,
// and Secrets is empty.
type Answer struct {
	policy.Verdict
	Addresses []netip.Addr // those that were decided about
	Secrets   []string     // names of those that may be sent with it
}

// Check makes every decision about a flow. One allowed address of a name is enough, as the gateway
// would try the next. A name without an address here and now is decided without one.
func (e Evaluator) Check(ctx context.Context, f policy.Flow) Answer {
	connection := f
	connection.Method, connection.Path = "", ""
	// The connection of a request is decided without the request.
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

// hinted is the verdict on a name with the command that allows the connection's port.
func (e Evaluator) hinted(name policy.Verdict, connection policy.Flow) policy.Verdict {
	if v := e.Policy.Decide(connection); !v.Allow {
		return v
	}
	return name
}

// checkAddresses continues Check once connection and request are allowed.
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

// IsHostAddress tells whether an address is this host's; it is for policy.New. It asks each time,
// because laptops move.
func IsHostAddress(a netip.Addr) bool {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return true // safe: the address may be ours
	}
	return slices.ContainsFunc(addrs, func(own net.Addr) bool {
		p, err := netip.ParsePrefix(own.String())
		return err == nil && p.Addr().Unmap() == a
	})
}
