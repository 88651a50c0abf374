package policy

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
)

// Secret is a credential that a box may use and never sees. It holds no value: the box gets
// Placeholder in the variable Name, and the gateway replaces that by the value, in requests that
// Scope covers and nowhere else. It is part of a Spec, so it is kept in the box's record and shown
// by policy show.
type Secret struct {
	Name  string `json:"name"`            // of the variable in the box; in the log it stands for the value
	Scope []Rule `json:"scope"`           // hosts, methods and paths it may be sent to, over TLS; never empty
	Clear []Rule `json:"clear,omitempty"` // those of Scope where it may also be sent in the clear
	// Header always carries the secret, whatever the box sends there; "" for wherever the box puts
	// the placeholder.
	Header string `json:"header,omitempty"`
	Form   Form   `json:"form,omitempty"` // how Header says it
	User   string `json:"user,omitempty"` // for Basic
	// Placeholder is random and of this box only, so its box is known if it turns up elsewhere. It
	// is PlaceholderPrefix and hex digits; "" if Header suffices.
	Placeholder string `json:"placeholder,omitempty"`
}

// Form is how a header carries a secret.
type Form string

// The forms. They only apply with a Header: a placeholder is replaced where it is, in Basic
// credentials too.
const (
	Raw    Form = ""       // the value itself
	Bearer Form = "bearer" // Authorization: Bearer VALUE
	Basic  Form = "basic"  // Authorization: Basic base64(USER:VALUE)
)

// Values returns the present values of secrets. It is called for each use, so that a rotated value
// takes effect at once and a revoked one ends; an error denies the request. Values must not be
// kept, logged or written anywhere.
type Values interface {
	// Value returns the value of the secret with this name, not empty and fit for a header. It may
	// be called concurrently.
	Value(ctx context.Context, name string) (string, error)
}

// Covers reports whether the secret may be sent with a request. Without a method, it reports
// whether some request to that destination may carry it, which is why its connections are opened. A
// request in the clear is covered by Clear alone.
func (s Secret) Covers(f Flow) bool {
	scope := s.Scope
	if f.Method != "" && !f.TLS {
		scope = s.Clear
	}
	return slices.ContainsFunc(scope, func(r Rule) bool {
		reach := r.allows(f)
		return reach == yes || reach == maybe && f.Method == ""
	})
}

// AddScope adds a rule as somebody writes it. Only one with http:// or ws:// permits requests in
// the clear. The error is one line for people.
func (s *Secret) AddScope(rule string) error {
	r, err := ParseRule(rule)
	if err != nil {
		return err
	}
	_, target, ok := strings.Cut(strings.TrimSpace(rule), " ")
	if !ok {
		target = strings.TrimSpace(rule)
	}
	scheme, _ := cutScheme(strings.TrimSpace(target))
	inClear := scheme == "http" || scheme == "ws"
	if r.From == 80 && r.To == 80 && !inClear {
		return errors.New("a secret goes over TLS only, and port 80 speaks none: http:// before the host permits to send it in the clear")
	}
	s.Scope = append(s.Scope, r)
	if inClear {
		s.Clear = append(s.Clear, r)
	}
	return nil
}

// HeaderValue is what Header must contain for the value.
func (s Secret) HeaderValue(value string) string {
	switch s.Form {
	case Bearer:
		return "Bearer " + value
	case Basic:
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(s.User+":"+value))
	}
	return value
}

// Secrets returns the policy's secrets, in order.
func (p *Policy) Secrets() []Secret { return slices.Clone(p.secrets) }

// SecretsFor returns those that may be sent with a request.
func (p *Policy) SecretsFor(f Flow) []Secret {
	return slices.DeleteFunc(p.Secrets(), func(s Secret) bool { return !s.Covers(f) })
}

// secretFor reports whether requests may carry a secret, so that TLS has to be opened.
func (p *Policy) secretFor(f Flow) bool {
	return f.Name != "" && f.Proto != UDP && f.Port != 0 && slices.ContainsFunc(p.secrets, func(s Secret) bool { return s.Covers(f) })
}

// Answers reports whether a denied flow is to an API that a secret is for: its name then exists, and
// its requests are refused in HTTP, which programs understand at once. Many go on asking for minutes
// for a name that does not exist. Names below a wildcard do not count, as the box chooses them.
func (p *Policy) Answers(f Flow) bool {
	if f.Name == "" || f.Proto != DNS && f.Proto != TCP || isMetadataName(f.Name) {
		return false
	}
	return slices.ContainsFunc(p.secrets, func(s Secret) bool {
		return slices.ContainsFunc(s.Scope, func(r Rule) bool { return r.Host == f.Name && r.allows(f) != no })
	})
}

// PlaceholderPrefix starts every placeholder, so that one can be recognised without knowing it.
const PlaceholderPrefix = "agentbox-secret-"
