package tasks

import (
	"context"
	"net/http"
	"os"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
)

// handleForeground registers the calls about tasks for which a client waits. A client holds a task
// by keeping a call open. If it hangs up, for whatever reason, and no other client holds the task a
// moment later, the queue cancels the task.
func (t Tasks) handleForeground(mux *http.ServeMux) {
	api.Handle(mux, api.RunTask, t.startForeground)
	api.Handle(mux, api.HoldTask, func(ctx context.Context, ref api.TaskRef, _ agentbox.Progress) (agentbox.Task, error) {
		id, err := t.Find(ref)
		if err != nil {
			return agentbox.Task{}, err
		}
		return t.Queue.Hold(ctx, id)
	})
	api.Handle(mux, api.ReleaseTask, func(_ context.Context, ref api.TaskRef, _ agentbox.Progress) (api.None, error) {
		id, err := t.Find(ref)
		if err != nil {
			return api.None{}, err
		}
		return api.None{}, t.Queue.Release(id)
	})
	api.Handle(mux, api.LimitTask, func(_ context.Context, req api.TaskLimit, _ agentbox.Progress) (api.None, error) {
		id, err := t.Find(api.TaskRef{Task: req.Task})
		if err != nil {
			return api.None{}, err
		}
		return api.None{}, t.Queue.End(id, req.Limit)
	})
}

// startForeground starts a foreground task and returns how to reach its box. It returns when the command is
// running or has finished. In the latter case the box may be gone, and the connection is empty. It
// does not check for room, because the user is waiting for it.
func (t Tasks) startForeground(ctx context.Context, req api.TaskSubmission, progress agentbox.Progress) (api.TaskStarted, error) {
	if len(req.Commands) != 1 {
		return api.TaskStarted{}, agentbox.Errorf(agentbox.Invalid, "%d commands: one is run", len(req.Commands))
	}
	s, err := t.submission(ctx, req, progress)
	if err != nil {
		return api.TaskStarted{}, err
	}
	begun, err := t.Queue.Begin(ctx, s, req.Environ, progress)
	if err != nil || begun.State.Done() {
		return api.TaskStarted{Task: begun}, err
	}
	// The box runs, because its command does. Connect only returns how to reach it.
	c, err := t.Boxes.Connect(ctx, api.BoxRef{Box: begun.Last().BoxName}, nil)
	if agentbox.CodeOf(err) == agentbox.NotFound { // the box has ended meanwhile
		return api.TaskStarted{Task: begun}, nil
	}
	return api.TaskStarted{Task: begun, Connection: c}, err
}

// includeEnviron returns AGENTBOX_ISOLATION and the variables that the configuration's includes
// use. A task stores no others on disk, because a user's environment may contain secrets.
func includeEnviron(cfg *config.Config, environ []string) []string {
	named := map[string]bool{"AGENTBOX_ISOLATION": true}
	for _, include := range cfg.Include {
		os.Expand(include.From, func(name string) string {
			named[name] = true
			return ""
		})
	}
	var kept []string
	for _, kv := range environ {
		if name, _, _ := strings.Cut(kv, "="); named[name] {
			kept = append(kept, kv)
		}
	}
	return kept
}
