package local

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/place/local/templates"
)

// OpenLog opens a log of a box, also of one that does not run: what its machine printed on its
// console in its current or last life, or, with supervisor, what happened to the machine. NotFound
// if there is none. The caller closes the file.
func (l *Local) OpenLog(id agentbox.BoxID, supervisor bool) (*os.File, error) {
	name := l.Home.Box(id).Log()
	if !supervisor {
		name = console(l.Home.Box(id).Dir)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.NotFound, "the box has no such log: %w", err)
	}
	return f, nil
}

// console is the console of the highest life, which exists if there is any: a reset or a start
// begins a new file, and the old one is removed with its life.
func console(dir string) string {
	files, _ := filepath.Glob(filepath.Join(dir, "life-*", templates.ConsoleFile))
	if len(files) == 0 {
		return filepath.Join(dir, templates.ConsoleFile)
	}
	// The names are life-N without leading zeros, so a longer name has the higher number; names of
	// equal length compare as strings.
	return slices.MaxFunc(files, func(f, g string) int { return cmp.Or(len(f)-len(g), strings.Compare(f, g)) })
}
