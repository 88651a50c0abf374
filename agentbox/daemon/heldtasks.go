package daemon

import (
	"context"
	"net/http"
	"os"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
)

// handleHeld serves the calls about held tasks, those that a client waits for. To hold is to keep a
// call open: when the client hangs up, for whatever reason, and no other holds the task a moment
// later, the queue cancels it.
func (t tasks) handleHeld(mux *http.ServeMux) {
	api.Handle(mux, api.RunTask, t.run)
	api.Handle(mux, api.HoldTask, func(ctx context.Context, ref api.TaskRef, _ agentbox.Progress) (agentbox.Task, error) {
		id, err := t.find(ref)
		if err != nil {
			return agentbox.Task{}, err
		}
		return t.queue.Hold(ctx, id)
	})
	api.Handle(mux, api.ReleaseTask, func(_ context.Context, ref api.TaskRef, _ agentbox.Progress) (api.None, error) {
		id, err := t.find(ref)
		if err != nil {
			return api.None{}, err
		}
		return api.None{}, t.queue.Release(id)
	})
	api.Handle(mux, api.LimitTask, func(_ context.Context, req api.TaskLimit, _ agentbox.Progress) (api.None, error) {
		id, err := t.find(api.TaskRef{Task: req.Task})
		if err != nil {
			return api.None{}, err
		}
		return api.None{}, t.queue.End(id, req.Limit)
	})
}

// run begins a held task and says how to reach its box. It returns when the command runs, or has
// run: then there may be no box any more, and the connection is empty. Whether there is room is not
// asked: the user sits before it.
func (t tasks) run(ctx context.Context, req api.TaskSubmission, progress agentbox.Progress) (api.TaskBegun, error) {
	if len(req.Commands) != 1 {
		return api.TaskBegun{}, agentbox.Errorf(agentbox.Invalid, "%d commands: one is run", len(req.Commands))
	}
	s, err := t.submission(ctx, req, progress)
	if err != nil {
		return api.TaskBegun{}, err
	}
	begun, err := t.queue.Begin(ctx, s, req.Environ, progress)
	if err != nil || begun.State.Done() {
		return api.TaskBegun{Task: begun}, err
	}
	// The box runs, as its command does; Connect only says where.
	c, err := t.boxes.Connect(ctx, api.BoxRef{Box: begun.Last().BoxName}, nil)
	if agentbox.CodeOf(err) == agentbox.NotFound { // it has ended meanwhile
		return api.TaskBegun{Task: begun}, nil
	}
	return api.TaskBegun{Task: begun, Connection: c}, err
}

// includeEnviron is what the configuration's includes name of an environment: a task keeps nothing
// else of it. Other variables of a user's environment are not written to disk with the task: they
// may be secrets.
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
