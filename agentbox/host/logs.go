package host

import (
	"context"
	"fmt"
	"io"

	"agentbox/agentbox/api"
	"agentbox/agentbox/environment"
)

// Log writes a log that this host keeps about a box, also of one that does not run.
func (m *Manager) Log(ctx context.Context, req api.BoxLogRequest, w io.Writer) error {
	b, err := m.Find(ctx, req.BoxRef)
	if err != nil {
		return err
	}
	f, err := m.places.OpenLog(b.ID, req.Supervisor)
	if err != nil {
		return fmt.Errorf("box %s: %w", b.Name, err)
	}
	defer f.Close()
	return environment.Tail(ctx, f, req.Last(), req.Follow, w)
}
