package daemon

import (
	"context"
	"io"
	"net/http"

	"agentbox/agentbox/api"
	"agentbox/agentbox/background"
)

// changes tells who looks at boxes and tasks when to look again: around each call that may change
// them, when a machine ends, and when a task begins or ends.
type changes struct{ background.Topic }

// follow writes a line for each change. Changes that come while a line is written are one.
func (c *changes) follow(ctx context.Context, _ api.None, w io.Writer) error {
	for {
		changed := c.Changed()
		if _, err := io.WriteString(w, "{\"changed\":true}\n"); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// around announces the beginning and the end of each call that does more than look.
func (c *changes) around(next http.Handler) http.Handler {
	looks := map[string]bool{"/metrics": true, api.CheckToken.Path: true, api.FindSubject.Path: true, api.Connect.Path: true}
	for _, call := range api.Public() {
		looks[call.Path] = call.Scope == api.ScopeRead
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !looks[r.URL.Path] {
			c.Announce()
			defer c.Announce()
		}
		next.ServeHTTP(w, r)
	})
}
