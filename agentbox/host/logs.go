package host

import (
	"cmp"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/place/local/templates"
)

// Log writes a log that this host keeps about a box, also of one that does not run.
func (m *Manager) Log(ctx context.Context, req api.BoxLogRequest, w io.Writer) error {
	b, err := m.Find(ctx, req.BoxRef)
	if err != nil {
		return err
	}
	name := m.home.Box(b.ID).Log()
	if !req.Supervisor {
		if name, err = m.consoleFile(b); err != nil {
			return err
		}
	}
	f, err := os.Open(name)
	if err != nil {
		return agentbox.Errorf(agentbox.NotFound, "box %s has no such log: %w", b.Name, err)
	}
	defer f.Close()
	return environment.Tail(ctx, f, req.Last(), req.Follow, w)
}

// consoleFile returns the console file of the box's current or last machine: that of the highest
// life. A reset or a start begins a new file; the old one is removed with its life.
func (m *Manager) consoleFile(b agentbox.Box) (string, error) {
	files, err := filepath.Glob(filepath.Join(m.home.Box(b.ID).Dir, "life-*", templates.ConsoleFile))
	if err != nil || len(files) == 0 {
		return "", agentbox.Errorf(agentbox.NotFound, "the machine of box %s has printed nothing on its console", b.Name)
	}
	// The names are life-N without leading zeros, so a longer name has the higher number; names of
	// equal length compare as strings.
	return slices.MaxFunc(files, func(f, g string) int { return cmp.Or(len(f)-len(g), strings.Compare(f, g)) }), nil
}
