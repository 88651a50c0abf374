package project

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox/durable"
	"agentbox/policy"
)

// Of is which project the checkout at root belongs to, with what earlier versions kept by path
// taken over.
func (s *Store) Of(root string) (Project, error) {
	p, err := Of(root)
	if err != nil {
		return p, err
	}
	return p, s.adopt()
}

// adopt takes over what was decided about checkouts that are there. Those of others wait until they
// are, as on a disk that is not attached. It is done at each call of Of, and costs a look into a
// directory that is mostly not there.
func (s *Store) adopt() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries, err := os.ReadDir(s.names.Repositories())
	if err != nil {
		return ignoreMissing(err)
	}
	for _, e := range entries {
		dir := filepath.Join(s.names.Repositories(), e.Name())
		root, err := readFile(filepath.Join(dir, "directory"), maxFile)
		if err != nil {
			continue // nobody knows whose it is
		}
		p, err := Of(strings.TrimSuffix(string(root), "\n"))
		if err != nil {
			continue
		}
		if err := s.takeOver(dir, p); err != nil {
			return err
		}
	}
	return nil
}

// takeOver adds what a directory by path has to that of a project, and removes it. Cut short it is
// done again, with the same outcome. Rules are joined before the directory goes. The caller holds
// the lock.
func (s *Store) takeOver(dir string, p Project) error {
	user, ok, err := read(filepath.Join(dir, "user.yaml"))
	if err != nil {
		return err
	}
	if ok {
		if err := s.changeUser(p, func(f *policy.File) error { return unite(f, user) }); err != nil {
			return err
		}
	}
	approved, ok, err := read(filepath.Join(dir, "approved.yaml"))
	if err != nil {
		return err
	}
	if ok {
		w := Wish{Policy: approved}
		if err := s.approve(p, w); err != nil {
			return err
		}
		if err := durable.WriteFile(filepath.Join(s.dir(p), "before"), []byte(w.Digest()+"\n"), 0o600); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir)
}

// unite adds the rules of another checkout of one project. Of two presets the narrower one is kept.
func unite(f *policy.File, other policy.File) error {
	for _, lists := range []struct{ to, from *[]policy.Rule }{{&f.Allow, &other.Allow}, {&f.Deny, &other.Deny}, {&f.Private, &other.Private}} {
		for _, r := range *lists.from {
			if !slices.ContainsFunc(*lists.to, func(o policy.Rule) bool { return o.String() == r.String() }) {
				*lists.to = append(*lists.to, r)
			}
		}
	}
	if f.Preset == "" || other.Preset != "" && policy.Width(other.Preset) < policy.Width(f.Preset) {
		f.Preset = other.Preset
	}
	return nil
}

// adoptSecrets names the project of secrets that were set for the path of a checkout.
func adoptSecrets(list []Secret) []Secret {
	for i, secret := range list {
		if secret.Repository == "" || secret.Project != "" {
			continue
		}
		p, err := Of(secret.Repository)
		if errors.Is(err, fs.ErrNotExist) || err != nil {
			continue // it waits for its checkout
		}
		list[i].Project, list[i].Repository = p.Name, ""
	}
	return list
}
