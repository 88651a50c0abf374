package project

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxPins is how many pins of a project are remembered, enough for its branches and a year of
// updates. Beyond it the oldest are dropped.
const maxPins = 500

func (s *Store) pinsFile(p Project) string { return filepath.Join(s.dir(p), "pins") }

// NewPin reports whether a lock file pins something new: boxes of this project were made here, but
// none from this pin. A change of the lock file changes what runs. The first pin of a project is
// not new, because there is nothing to compare it with. pin is a digest as text; "" is never new.
func (s *Store) NewPin(p Project, pin string) (bool, error) {
	known, err := s.pins(p)
	return pin != "" && len(known) > 0 && !slices.Contains(known, pin), err
}

// UsePin records that boxes of a project are made from this pin of its lock file. Using a pin again
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

// pins returns the recorded pins, oldest first.
func (s *Store) pins(p Project) ([]string, error) {
	text, err := readFile(s.pinsFile(p), maxFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return strings.Fields(string(text)), err
}
