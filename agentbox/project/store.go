package project

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/home"
	"agentbox/policy"
)

// Store manages the files below policy/ of one home. Only one process at a time may write them,
// which the daemon's lock ensures. Readers need no lock, because files are replaced as a whole.
type Store struct {
	names  home.Policy
	system string // the organisation's file for the whole machine

	mu sync.Mutex // held while a file is changed
}

// NewStore returns the store of a home.
func NewStore(h home.Home) *Store { return &Store{names: h.Policy(), system: home.SystemPolicy} }

// Organisation reads the organisation's files: the machine's and the one in the home.
// policy.Compose defines how they combine with the others.
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

// User reads the user's own rules for one project, or for all projects if p is zero.
func (s *Store) User(p Project) (policy.File, error) {
	f, _, err := read(s.userPath(p))
	return f, err
}

// userPath returns the path of the user's file for one project, or for all if p is zero.
func (s *Store) userPath(p Project) string {
	if p.IsZero() {
		return s.names.User()
	}
	return filepath.Join(s.dir(p), "user.yaml")
}

func (s *Store) dir(p Project) string { return s.names.Project(p.ID()) }

const userComment = `The user's rules. Edit this file, or use agentbox policy allow and deny, which write it anew.
See docs/policy.md for how rules are written.`

// ChangeUser changes the user's own rules for one project, or for all projects if p is zero. If
// change returns an error, the file stays as it is. Comments that people wrote into the file are
// lost.
func (s *Store) ChangeUser(p Project, change func(f *policy.File) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := s.User(p)
	if err != nil {
		return err
	}
	if err := change(&f); err != nil {
		return err
	}
	return s.write(p, s.userPath(p), f.Encode(userComment))
}

// write writes a file of a project, or of the whole store if p is zero.
func (s *Store) write(p Project, path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if !p.IsZero() { // for people who look at the directory
		if err := durable.WriteFile(filepath.Join(s.dir(p), "project"), []byte(p.Name+"\n"), 0o600); err != nil {
			return err
		}
	}
	return durable.WriteFile(path, data, 0o600)
}

// maxFile is just above ParseFile's own bound, whose error people see.
const maxFile = 1<<20 + 1

// read reads a policy file. ok is false if there is none.
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
