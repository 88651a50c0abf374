package policy

import (
	"slices"
	"strings"
)

// coversHost reports whether the rule is about this destination. A wildcard covers names below it
// and no bare addresses; * alone covers both. Neither covers a reserved name.
func (r Rule) coversHost(f Flow) bool {
	switch {
	case r.Host == "*":
		return !isReserved(f.Name)
	case r.Prefix.IsValid():
		return f.Name == "" && f.Addr.IsValid() && r.Prefix.Contains(f.Addr)
	case f.Name == "":
		return false
	}
	if base, ok := strings.CutPrefix(r.Host, "*."); ok {
		return !isReserved(f.Name) && strings.HasSuffix(f.Name, "."+base)
	}
	return f.Name == r.Host
}

// everything reports whether the rule is * alone: any port, any protocol. With a method or a path
// it is about requests, so it is not.
func (r Rule) everything() bool {
	return r.Host == "*" && r.From == 0 && !r.UDP && !r.NeedsInspection()
}

// coversPort reports whether the rule is about this port; 0 stands for any.
func (r Rule) coversPort(port uint16) bool {
	switch {
	case port == 0 || r.everything() || r.UDP && r.From == 0:
		return true
	case r.From == 0:
		return port == 80 || port == 443
	}
	return r.From <= port && port <= r.To
}

// coversProto reports whether the rule is about a protocol; a DNS question precedes either.
func (r Rule) coversProto(p Proto) bool {
	return p == DNS || r.everything() || r.UDP == (p == UDP)
}

// reach is how far a rule covers a flow; the maximum of two is what both cover together.
type reach int

const (
	no    reach = iota
	maybe       // the destination is covered, and only the inside can say whether this request is
	yes
)

// allows is how far the rule covers a flow as one that allows. It errs on the side of not covering:
// no pattern covers a path that servers interpret in different ways.
func (r Rule) allows(f Flow) reach {
	switch {
	case !r.coversHost(f) || !r.coversPort(f.Port) || !r.coversProto(f.Proto):
		return no
	case !r.NeedsInspection():
		return yes
	case f.Proto == ICMP:
		return no // it carries no request
	case f.Method == "":
		return maybe
	case len(r.Methods) > 0 && !slices.Contains(r.Methods, f.Method):
		return no
	case r.Path != "" && !matchPath(r.Path, f.Path):
		return no
	}
	return yes
}

// denies is how far the rule covers a flow as one that denies. It errs on the other side: without a
// port it is about all ports and protocols, and it covers a path that servers interpret in
// different ways. A rule about some ports does not deny a name while the port is unknown. A rule
// about an address denies any name that leads there.
func (r Rule) denies(f Flow) reach {
	allPorts := r.From == 0 && !r.UDP
	byAddress := f.Name != "" && r.Prefix.IsValid() && f.Addr.IsValid() && r.Prefix.Contains(f.Addr)
	switch {
	case !r.coversHost(f) && r.Host != "*" && !byAddress:
		return no
	case !allPorts && (f.Port == 0 || !r.coversPort(f.Port)):
		return no
	case !allPorts && !r.coversProto(f.Proto) && !r.NeedsInspection():
		return no
	case !r.NeedsInspection():
		return yes
	case byAddress || f.Proto == UDP:
		// Requests to a name share connections, and which address theirs has is known too late;
		// those in datagrams (HTTP/3) are seen by nobody. What cannot be told apart is denied as a
		// whole.
		return yes
	case f.Method == "":
		return maybe
	case len(r.Methods) > 0 && !slices.Contains(r.Methods, f.Method):
		return no
	}
	if p, clear := CanonicalPath(f.Path); r.Path != "" && clear && !match(r.Path, p) {
		return no
	}
	return yes
}
