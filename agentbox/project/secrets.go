package project

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/policy"
	"agentbox/policy/secrets"
)

// Secret is a secret as the user configured it: where its value is stored, and where it may be
// sent. It does not contain the value.
type Secret struct {
	policy.Secret
	From    secrets.Reference `json:"from"`
	Project string            `json:"project,omitempty"` // name of the only project whose boxes may use it
}

// AllProjects reports whether the boxes of all projects may use the secret.
func (s Secret) AllProjects() bool { return s.Project == "" }

// Applies reports whether boxes of the project may use the secret.
func (s Secret) Applies(p Project) bool {
	return s.AllProjects() || s.Project == p.Name
}

// Host returns the first host in the scope that is no pattern, for commands that need a host to
// look up the value. It returns "" if all hosts are patterns.
func (s Secret) Host() string {
	for _, r := range s.Scope {
		if _, _, err := policy.CanonicalHost(r.Host); err == nil {
			return r.Host
		}
	}
	return ""
}

// Secrets lists all secrets, those of one project before those of all projects. The file may have
// been edited by hand, in any order. The error has code Corrupt if the file is not such a list.
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
		return nil, agentbox.Classify(agentbox.Corrupt, "%s is not a list of secrets: %w", s.names.Secrets(), err).
			WithHint("mend or remove it, and set the secrets again: it holds no values")
	}
	slices.SortStableFunc(list, nearerFirst)
	return list, nil
}

// nearerFirst orders secrets of one project before those of all projects, then by name.
func nearerFirst(a, b Secret) int {
	switch {
	case a.AllProjects() == b.AllProjects():
		return strings.Compare(a.Name, b.Name)
	case b.AllProjects():
		return -1
	}
	return 1
}

// SecretsFor lists the secrets that boxes of a project get. A secret of the project hides a secret
// of all projects with the same name.
func (s *Store) SecretsFor(p Project) ([]Secret, error) {
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

// SetSecret adds a secret, or replaces the one with the same name and project. Running boxes
// receive it when the caller applies their policy again.
func (s *Store) SetSecret(secret Secret) error {
	if err := secret.Check(); err != nil {
		return err
	}
	return s.changeSecrets(func(list []Secret) ([]Secret, error) {
		list = slices.DeleteFunc(list, func(o Secret) bool { return o.Name == secret.Name && o.Project == secret.Project })
		return append(list, secret), nil
	})
}

// RemoveSecret removes the secret that boxes of p have under a name: the project's own, or else the
// one of all projects. It returns NotFound if they have none. The value stays where it is stored.
func (s *Store) RemoveSecret(name string, p Project) (removed Secret, err error) {
	err = s.changeSecrets(func(list []Secret) ([]Secret, error) {
		i := slices.IndexFunc(list, func(o Secret) bool { return o.Name == name && o.Applies(p) })
		if i < 0 {
			return nil, agentbox.Errorf(agentbox.NotFound, "there is no secret %s for this repository", name).WithHint("agentbox secret ls lists them")
		}
		removed = list[i]
		return slices.Delete(list, i, i+1), nil
	})
	return removed, err
}

// changeSecrets replaces the list by the result of change. It writes nothing if change fails.
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
	slices.SortStableFunc(list, nearerFirst)
	data, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	return s.write(Project{}, s.names.Secrets(), append(data, '\n'))
}
