package agents

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/policy"
	"agentbox/policy/secrets"
)

// Credential says where this machine has a secret, never its value.
type Credential struct {
	Secret
	From   secrets.Reference
	User   string   // for As basic
	Agents []string // that use it; none for a login of a package index
}

// Host is where to look: a home, and the variables of a user.
type Host struct {
	Home string
	Env  func(string) (string, bool)
}

// Credentials lists what the tools of agents and of package indexes have on this machine. Profiles of a
// repository are left out, since they would name what to look for and where to send it. Values are
// read to see that there is one, and are not kept.
func (h Host) Credentials(ctx context.Context, profiles []Profile) []Credential {
	var out []Credential
	for _, p := range profiles {
		if p.Origin == Repository {
			continue
		}
		for _, s := range p.Secrets {
			i := slices.IndexFunc(out, func(c Credential) bool { return c.Name == s.Name && c.Header == s.Header && slices.Equal(c.To, s.To) })
			if i >= 0 {
				out[i].Agents = append(out[i].Agents, p.Name)
			} else if from, ok := h.find(ctx, s); ok {
				out = append(out, Credential{Secret: s, From: from, Agents: []string{p.Name}})
			}
		}
	}
	return append(out, h.logins()...)
}

// find tells where a secret is: in a variable, or in the file of the agent's own login.
func (h Host) find(ctx context.Context, s Secret) (secrets.Reference, bool) {
	for _, name := range append([]string{s.Name}, s.Env...) {
		if v, _ := h.Env(name); v != "" {
			return secrets.Reference{Kind: secrets.Env, Target: name}, true
		}
	}
	from, ok := s.Reference(h.Home)
	if ok {
		_, err := from.Value(ctx, secrets.Purpose{Name: s.Name})
		ok = err == nil
	}
	return from, ok
}

// indexFiles are where the tools of package indexes keep logins, below the home.
var indexFiles = []string{".npmrc", ".netrc", ".config/pip/pip.conf", ".pip/pip.conf", ".config/go/env"}

// logins are those of package indexes. A file that is not there, or that others may write, has none.
func (h Host) logins() []Credential {
	var out []Credential
	for _, name := range indexFiles {
		all, _ := secrets.Logins(h.Home, filepath.Join(h.Home, name))
		for _, l := range all {
			to := "https://" + l.Host
			if strings.Contains(l.Host, "/") {
				to += "/**"
			}
			one := Credential{From: l.From, User: l.User, Secret: Secret{Name: loginName(l.Host), To: []string{to}, Header: "Authorization", As: policy.Basic}}
			if l.Bearer {
				one.As = policy.Bearer
			}
			if !slices.ContainsFunc(out, func(c Credential) bool { return c.Name == one.Name }) {
				out = append(out, one)
			}
		}
	}
	return out
}

// loginName is the name of the secret for an index: that of its variable in boxes.
func loginName(host string) string {
	return "LOGIN_" + strings.ToUpper(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, host))
}

// ThisHost is the machine and the user that run this program.
func ThisHost() (Host, error) {
	home, err := os.UserHomeDir()
	return Host{Home: home, Env: os.LookupEnv}, err
}
