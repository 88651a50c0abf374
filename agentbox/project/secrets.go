package project

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/yamlfile"
	"agentbox/policy"
	"agentbox/policy/secrets"
)

// Secret is a secret as the user set it: where its value is kept, and where it may be sent. No
// field has the value.
type Secret struct {
	policy.Secret
	From    secrets.Reference `json:"from"`
	Project string            `json:"project,omitempty"` // name of the one whose boxes may use it
}

// Everywhere tells whether the boxes of all projects may use the secret.
func (s Secret) Everywhere() bool { return s.Project == "" }

// Applies tells whether boxes of the project may use the secret.
func (s Secret) Applies(p Project) bool {
	return s.Everywhere() || s.Project == p.Name
}

// Host is the host a command is asked about: the first that the scope names in full. It is "" where
// each is a pattern.
func (s Secret) Host() string {
	for _, r := range s.Scope {
		if _, _, err := policy.CanonicalHost(r.Host); err == nil {
			return r.Host
		}
	}
	return ""
}

// Secrets lists all secrets, those for one project before those for all: the nearer counts. Corrupt
// for a file that is no such list. The slice is the caller's.
func (s *Store) Secrets() ([]Secret, error) {
	b, err := os.ReadFile(s.names.Secrets())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []Secret
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, agentbox.Errorf(agentbox.Corrupt, "%s is not a list of secrets: %w", s.names.Secrets(), err).
			WithHint("mend or remove it, and set the secrets again: it holds no values")
	}
	return list, nil
}

// For lists the secrets of the boxes of one project. A secret of the project hides one of the same
// name for all.
func (s *Store) For(p Project) ([]Secret, error) {
	all, err := s.Secrets()
	if err != nil {
		return nil, err
	}
	var list []Secret
	for _, secret := range all {
		taken := slices.ContainsFunc(list, func(o Secret) bool { return o.Name == secret.Name })
		if secret.Applies(p) && !taken {
			list = append(list, secret)
		}
	}
	return list, nil
}

var (
	// A shell's names for variables, and RFC 9110's for headers, as far as they are used.
	variable = agentbox.Pattern(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	header   = agentbox.Pattern(`^[A-Za-z0-9][A-Za-z0-9-]{0,63}$`)
)

// check refuses what boxes could not get, and what would send a value to hosts that nobody named.
// Errors have code Invalid.
func (s Secret) check() error {
	switch {
	case !variable().MatchString(s.Name):
		return agentbox.Errorf(agentbox.Invalid, "%q cannot name a secret: boxes get it as an environment variable", s.Name)
	case len(s.Scope) == 0:
		return agentbox.Errorf(agentbox.Invalid, "secret %s: say where it may be sent", s.Name).WithHint("--to https://api.example.com, or --to 'GET https://api.example.com/v1/**'")
	case s.Header != "" && !header().MatchString(s.Header):
		return agentbox.Errorf(agentbox.Invalid, "%q is not the name of a header", s.Header)
	case s.Form != policy.Raw && s.Form != policy.Bearer && s.Form != policy.Basic:
		return agentbox.Errorf(agentbox.Invalid, "%q is not a form of a secret%s", s.Form, yamlfile.Suggest(string(s.Form), []policy.Form{policy.Bearer, policy.Basic}))
	}
	for _, r := range s.Scope {
		if r.Host == "*" || r.Prefix.IsValid() && !r.Prefix.IsSingleIP() || r.UDP {
			return agentbox.Errorf(agentbox.Invalid, "secret %s: %q is too wide: name the hosts it may be sent to", s.Name, r)
		}
	}
	return nil
}

// SetSecret adds a secret, or replaces the one of that name and project. Boxes that run get it when
// the caller has them govern anew.
func (s *Store) SetSecret(secret Secret) error {
	if err := secret.check(); err != nil {
		return err
	}
	return s.changeSecrets(func(list []Secret) ([]Secret, error) {
		list = slices.DeleteFunc(list, func(o Secret) bool { return o.Name == secret.Name && o.Project == secret.Project })
		return append(list, secret), nil
	})
}

// RemoveSecret removes the secret of a name: the project's own, else the one for all. NotFound
// where boxes of p have none of the name. The value stays where it is kept.
func (s *Store) RemoveSecret(name string, p Project) (removed Secret, err error) {
	err = s.changeSecrets(func(list []Secret) ([]Secret, error) {
		i := slices.IndexFunc(list, func(o Secret) bool { return o.Name == name && o.Applies(p) })
		if i < 0 {
			return nil, agentbox.Errorf(agentbox.NotFound, "there is no secret %s here", name).WithHint("agentbox secret ls")
		}
		removed = list[i]
		return slices.Delete(list, i, i+1), nil
	})
	return removed, err
}

// changeSecrets has a function change the list, keeps it in the order of Secrets, and writes it.
// Nothing is written when the function fails.
func (s *Store) changeSecrets(change func([]Secret) ([]Secret, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, err := s.Secrets()
	if err != nil {
		return err
	}
	if list, err = change(list); err != nil {
		return err
	}
	slices.SortStableFunc(list, func(a, b Secret) int {
		switch {
		case a.Everywhere() == b.Everywhere():
			return strings.Compare(a.Name, b.Name)
		case b.Everywhere():
			return -1
		}
		return 1
	})
	data, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	return s.write(Project{}, s.names.Secrets(), append(data, '\n'))
}
