package project

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxPins is how many pins of a project are remembered: those of its branches, and of a year of
// updates. Beyond it the oldest are forgotten.
const maxPins = 500

// pinsFile has one pin on each line.
func (s *Store) pinsFile(p Project) string { return filepath.Join(s.dir(p), "pins") }

// NewPin tells whether a lock file pins something that no box of this project was made of here,
// while others were: a change of the lock file changes what runs. The first pin of a project is not
// new, as there is nothing to compare it with. pin is a digest as text; "" is never new.
func (s *Store) NewPin(p Project, pin string) (bool, error) {
	known, err := s.pins(p)
	return pin != "" && len(known) > 0 && !slices.Contains(known, pin), err
}

// UsePin remembers that boxes of a project are made of what its lock file pins. To use one again
// does not make it newer.
func (s *Store) UsePin(p Project, pin string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, err := s.pins(p)
	if err != nil || pin == "" || slices.Contains(known, pin) {
		return err
	}
	known = append(known, pin)
	known = known[max(0, len(known)-maxPins):]
	return s.write(p, s.pinsFile(p), []byte(strings.Join(known, "\n")+"\n"))
}

// pins are those that are remembered, the oldest first.
func (s *Store) pins(p Project) ([]string, error) {
	text, err := readFile(s.pinsFile(p), maxFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return strings.Fields(string(text)), err
}
