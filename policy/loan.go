package policy

import (
	"encoding/json"

	"agentbox/agentbox"
	"agentbox/agentbox/yamlfile"
)

// Loan is what the owner of a task gives to the machine that runs it: secrets, without their values
// and placeholders, and bounds. The boxes of the task may reach the hosts of the secrets, and nothing
// that the bounds deny. It travels as JSON.
type Loan struct {
	Secrets []Secret `json:"secrets,omitempty"`
	Bounds  []File   `json:"bounds,omitempty"` // as an organisation's: they allow nothing (Compose)
}

// maxLent bounds the secrets of a loan.
const maxLent = 32

// ParseLoan parses a loan of another machine. Empty data is none.
func ParseLoan(data []byte) (l Loan, err error) {
	if len(data) == 0 {
		return l, nil
	}
	if len(data) > maxFile {
		return l, agentbox.Errorf(agentbox.Invalid, "the loan of a task is larger than 1 MiB")
	}
	if err := json.Unmarshal(data, &l); err != nil || len(l.Secrets) > maxLent {
		return Loan{}, agentbox.Errorf(agentbox.Invalid, "the loan of a task cannot be read")
	}
	for i := range l.Secrets {
		l.Secrets[i].Placeholder = ""
		if err := l.Secrets[i].Check(); err != nil {
			return Loan{}, err
		}
	}
	for i, f := range l.Bounds {
		// A list without its key would allow instead of bound.
		l.Bounds[i].HasAllow, l.Bounds[i].HasPrivate = f.HasAllow || len(f.Allow) > 0, f.HasPrivate || len(f.Private) > 0
		if f.Preset != "" && Breadth(f.Preset) < 0 {
			return Loan{}, agentbox.Errorf(agentbox.Invalid, "the loan of a task has an unknown preset")
		}
	}
	return l, nil
}

// Hosts are the rules by which the boxes of the task reach the hosts of the secrets.
func (l Loan) Hosts() (all []Rule) {
	for _, s := range l.Secrets {
		all = append(all, s.Scope...)
	}
	return all
}

// BoundsOf are bounds that deny what a policy made of these sources does not allow to anybody: the
// organisation's, what its user denies, and nothing wider than its preset.
func BoundsOf(s Sources) []File {
	bounds := append([]File{}, s.Organisation...)
	for _, f := range s.User {
		bounds = append(bounds, File{Deny: f.Deny})
	}
	return append(bounds, File{Preset: Compose(s).Preset, Deny: s.Repository.Deny})
}

var (
	// Names of variables as shells accept them, and of headers as in RFC 9110.
	variable = agentbox.Pattern(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	header   = agentbox.Pattern(`^[A-Za-z0-9][A-Za-z0-9-]{0,63}$`)
)

// Check refuses a secret that boxes cannot receive, and a scope that does not name its hosts. Errors
// have code Invalid.
func (s Secret) Check() error {
	switch {
	case !variable().MatchString(s.Name):
		return agentbox.Errorf(agentbox.Invalid, "%q cannot name a secret: boxes get it as an environment variable", agentbox.Clip(s.Name))
	case len(s.Scope) == 0:
		return agentbox.Errorf(agentbox.Invalid, "secret %s: say where it may be sent", s.Name).WithHint("--to https://api.example.com, or --to 'GET https://api.example.com/v1/**'")
	case s.Header != "" && !header().MatchString(s.Header):
		return agentbox.Errorf(agentbox.Invalid, "%q is not the name of a header", agentbox.Clip(s.Header))
	case s.Form != Raw && s.Form != Bearer && s.Form != Basic:
		return agentbox.Errorf(agentbox.Invalid, "%q is not a form of a secret%s", agentbox.Clip(string(s.Form)), yamlfile.Suggest(string(s.Form), []Form{Bearer, Basic}))
	}
	for _, r := range s.Scope {
		if r.Host == "*" || r.Prefix.IsValid() && !r.Prefix.IsSingleIP() || r.UDP {
			return agentbox.Errorf(agentbox.Invalid, "secret %s: %q is too wide: name the hosts it may be sent to", s.Name, r)
		}
	}
	return nil
}
