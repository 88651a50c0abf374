package approval

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/home"
	"agentbox/policy"
)

// Store is the files below one home's policy/. One process at a time may write it; the daemon's lock sees to it.
type Store struct {
	names  home.Policy
	system string // the organisation's file of the machine

	mu sync.Mutex // held while a file is changed
}

// New gives the store of a home.
func New(h home.Home) *Store { return &Store{names: h.Policy(), system: home.SystemPolicy} }

// Organisation reads the organisation's files: the machine's, and the one in the home.
func (s *Store) Organisation() ([]policy.File, error) {
	var files []policy.File
	for _, path := range []string{s.system, s.names.Organisation()} {
		f, ok, err := read(path)
		if err != nil {
			return nil, err
		}
		if ok {
			files = append(files, f)
		}
	}
	return files, nil
}

// User reads the user's own rules: those for all repositories, or, when root is not "", those for one.
func (s *Store) User(root string) (policy.File, error) {
	f, _, err := read(s.userPath(root))
	return f, err
}

func (s *Store) userPath(root string) string {
	if root == "" {
		return s.names.User()
	}
	return filepath.Join(s.names.Repository(root), "user.yaml")
}

const userComment = `The user's rules. Edit this file, or use agentbox policy allow and deny, which write it anew.
See docs/policy.md for how rules are written.`

// ChangeUser changes the user's own rules.
func (s *Store) ChangeUser(root string, change func(f *policy.File) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := s.User(root)
	if err != nil {
		return err
	}
	if err := change(&f); err != nil {
		return err
	}
	return s.write(root, s.userPath(root), f.Encode(userComment))
}

// write writes a file of a repository, or, when root is "", of the whole store.
func (s *Store) write(root, path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if root != "" {
		// For people who look at the directory, and for whoever removes those of checkouts that are gone.
		if err := durable.WriteFile(filepath.Join(s.names.Repository(root), "directory"), []byte(root+"\n"), 0o600); err != nil {
			return err
		}
	}
	return durable.WriteFile(path, data, 0o600)
}

// Approved reads the approved copy of a repository's policy. A repository nobody approved anything of has an empty one.
func (s *Store) Approved(root string) (policy.File, error) {
	f, _, err := read(s.approvedPath(root))
	return f, err
}

func (s *Store) approvedPath(root string) string {
	return filepath.Join(s.names.Repository(root), "approved.yaml")
}

// Approve makes f the approved copy.
func (s *Store) Approve(root string, f policy.File) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(root, s.approvedPath(root), f.Encode("What the repository's own policy said when it was approved. Changes here are not looked at by anybody."))
}

// Repositories lists the roots of the checkouts that something was decided about.
func (s *Store) Repositories() ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(s.names.Dir, "repositories", "*", "directory"))
	if err != nil {
		return nil, err
	}
	var roots []string
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		if n := len(b); n > 1 {
			roots = append(roots, string(b[:n-1]))
		}
	}
	slices.Sort(roots)
	return roots, nil
}

// maxFile bounds what is read; ParseFile's own bound is the one that is told to people.
const maxFile = 1<<20 + 1

// read reads a policy file; ok is false when there is none.
func read(path string) (f policy.File, ok bool, err error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return f, false, nil
	}
	if err != nil {
		return f, false, agentbox.Errorf(agentbox.Invalid, "cannot read the policy: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return f, false, fmt.Errorf("read %s: %w", path, err)
	}
	f, err = policy.ParseFile(path, data)
	return f, true, err
}
