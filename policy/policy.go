package policy

import (
	"fmt"
	"net/netip"
	"slices"
)

// Proto is the protocol of a flow, as far as it is known.
type Proto string

// The protocols. TLS and HTTP are known only once the box has sent something; until then they
// are TCP.
const (
	TCP  Proto = "tcp"
	TLS  Proto = "tls"
	HTTP Proto = "http" // a request, in the clear or inside of opened TLS
	UDP  Proto = "udp"
	DNS  Proto = "dns" // a question
	ICMP Proto = "icmp"
)

// Flow is one attempt to reach something, as far as it is known when it is decided. Exactly one of
// Name and Addr says where the box wants to go; Addr is set in addition to Name once that is
// resolved.
type Flow struct {
	Proto  Proto
	Name   string     // canonical (CanonicalName); "" for a bare address
	Addr   netip.Addr // where it would be sent, as the host resolved it or the box wrote it; invalid before that
	Port   uint16     // 0 before it is known
	Method string     // upper case; "" before a request is seen
	Path   string     // of the request, as sent, query and all
	TLS    bool       // the request is inside of TLS
}

// Host is the name, or the address without a name; "" without either.
func (f Flow) Host() string {
	if f.Name == "" && f.Addr.IsValid() {
		return f.Addr.String()
	}
	return f.Name
}

// Source is the source of a rule.
type Source string

// The sources, in the order in which verdicts name them.
const (
	Organisation Source = "organisation"
	User         Source = "user"
	Repository   Source = "repository"
	Preset       Source = "preset"
	Builtin      Source = "builtin" // what no policy can change: the ranges of addresses, the default to deny
)

// Verdict is the answer to a flow. The zero Verdict denies.
type Verdict struct {
	Allow  bool   `json:"allow"`
	Rule   string `json:"rule,omitempty"` // the rule that decided, as it is written; "" where none did (default deny)
	Source Source `json:"source"`
	Reason string `json:"reason,omitempty"` // one line for people
	// Kind is the audit log's word for a denial that does not come from a rule (Entry.Kind); else
	// "".
	Kind string `json:"-"`
	// NeedsInspection: the answer is about the connection only. Its TLS must be opened, and every
	// request decided.
	NeedsInspection bool `json:"needs_inspection,omitempty"`
	// Hint is the command that would permit a denied flow; "" if there is none.
	Hint string `json:"hint,omitempty"`
}

// Layer is the rules of one source. Their order only determines which of them a verdict names.
type Layer struct {
	Source  Source   `json:"source"`
	Name    string   `json:"name,omitempty"` // the preset, or the file
	Allow   []Rule   `json:"allow,omitempty"`
	Deny    []Rule   `json:"deny,omitempty"`
	Private []Rule   `json:"private,omitempty"` // allows, private addresses included
	Bound   bool     `json:"bound,omitempty"`   // nothing that Allow and Private do not cover is allowed by other layers either
	Notes   []string `json:"notes,omitempty"`   // where the rules of Allow come from, one for each; may be absent
}

// Policy is a compiled policy. It never changes: to change what a box may do, give its gateway
// another one. It may be used concurrently.
type Policy struct {
	layers  []Layer
	secrets []Secret
	own     func(netip.Addr) bool
}

// Spec describes the policy of one box. It travels as JSON and is kept in the box's record. It
// holds no values of secrets.
type Spec struct {
	Preset  string   `json:"preset"`
	Layers  []Layer  `json:"layers,omitempty"`
	Secrets []Secret `json:"secrets,omitempty"`
}

// New compiles a policy. own reports which addresses are the host's own, besides loopback: only the
// user may open these to a box, even if they are public. It is called for each decision, as laptops
// move; nil if unknown.
func New(spec Spec, own func(netip.Addr) bool) *Policy {
	if own == nil {
		own = func(netip.Addr) bool { return false }
	}
	return &Policy{layers: slices.Clone(spec.Layers), secrets: slices.Clone(spec.Secrets), own: own}
}

// Decide answers a flow. Without a port, a method or an address, it answers whether some such flow
// may be allowed. So it is called again as more becomes known: with the name when that is resolved,
// with name and port when a connection begins, with the address before it is dialled, with method
// and path for each request if NeedsInspection is set.
func (p *Policy) Decide(f Flow) Verdict {
	f.Addr = f.Addr.Unmap()
	v := p.rules(f)
	if v.Allow && f.Addr.IsValid() {
		v = p.address(f, v)
	}
	if !v.Allow {
		v.NeedsInspection = false
		v.Hint = hint(f, v)
		if f.Method != "" && v.Rule == "" && v.Hint != "" && p.connects(f) {
			v.Hint = requestHint(f)
		}
	} else if f.Method == "" && p.secretFor(f) {
		v.NeedsInspection = true
	}
	return v
}

// connects reports whether rules about requests let the box connect, for a denied request.
func (p *Policy) connects(f Flow) bool {
	f.Proto, f.Method, f.Path = TCP, "", ""
	return p.rules(f).Allow
}

// rules applies the denials, then the bounds, then what is allowed, in the order of the layers. It
// does not look at where an address is: see address.
func (p *Policy) rules(f Flow) Verdict {
	if isMetadataName(f.Name) {
		return Verdict{Source: Builtin, Reason: f.Name + " is " + isMetadata}
	}
	inside := false
	for _, l := range p.layers {
		for _, r := range l.Deny {
			switch r.denies(f) {
			case yes:
				return Verdict{Rule: r.String(), Source: l.Source, Reason: fmt.Sprintf("denied by the %s's rule %q", l.label(), r)}
			case maybe:
				inside = true
			}
		}
	}
	for _, l := range p.layers {
		if !l.Bound {
			continue
		}
		switch l.allowing(f) {
		case no:
			return Verdict{Source: l.Source, Reason: fmt.Sprintf("the %s allows nothing there", l.label())}
		case maybe:
			inside = true
		}
	}
	return p.allowed(f, inside)
}

// allowed finds the rule that allows a flow: the first that covers it for certain, else the first
// that may. inside: something else needs the inside of the connection.
func (p *Policy) allowed(f Flow, inside bool) Verdict {
	found := Verdict{Source: Builtin, Reason: "no rule allows it"}
	for _, l := range p.layers {
		if l.Bound {
			continue // a bound limits what others allow and allows nothing itself
		}
		for i, r := range slices.Concat(l.Private, l.Allow) {
			reach := r.allows(f)
			if reach == no || found.Allow && reach == maybe {
				continue
			}
			found = Verdict{Allow: true, Rule: r.String(), Source: l.Source, NeedsInspection: inside || reach == maybe,
				Reason: fmt.Sprintf("allowed by the %s's rule %q%s", l.label(), r, l.note(i-len(l.Private)))}
			if reach == yes {
				return found
			}
		}
	}
	return found
}

func (l Layer) allowing(f Flow) reach {
	most := no
	for _, r := range slices.Concat(l.Private, l.Allow) {
		most = max(most, r.allows(f))
	}
	return most
}

// note returns the origin of a rule of Allow, if known.
func (l Layer) note(i int) string {
	if i < 0 || i >= len(l.Notes) {
		return ""
	}
	return " (" + l.Notes[i] + ")"
}

func (l Layer) label() string {
	if l.Source == Preset && l.Name != "" {
		return "preset " + l.Name
	}
	return string(l.Source)
}

// address checks the real destination of an allowed flow. A rule about a name says nothing of its
// addresses, which its owner, or a resolver, may point at this network.
func (p *Policy) address(f Flow, v Verdict) Verdict {
	class, what := Classify(f.Addr)
	if class == Public && p.own(f.Addr) {
		class, what = Private, "an address of this host"
	}
	switch {
	case class == Public:
		return v
	case class == Refused:
		return Verdict{Source: Builtin, Reason: fmt.Sprintf("%s is %s", f.Addr, what)}
	case p.granted(f):
		return v
	}
	return Verdict{Source: Builtin, Reason: fmt.Sprintf("%s is %s, which is allowed by explicit grant only", f.Addr, what)}
}

// granted reports whether a private address may be reached: some layer grants it, and every bound
// does. A bound's own grant opens nothing.
func (p *Policy) granted(f Flow) bool {
	granted := false
	for _, l := range p.layers {
		covered := slices.ContainsFunc(l.Private, func(r Rule) bool { return r.Host != "*" && r.allows(f) != no })
		if l.Bound && !covered {
			return false
		}
		granted = granted || covered && !l.Bound
	}
	return granted
}
