package daemon

import (
	"context"
	"net/http"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/job/jobs"
	"agentbox/agentbox/source/sources"
	"agentbox/agentbox/task/tasks"
	"agentbox/agentbox/token"
)

// tokens serves the calls about tokens, and those by which the door finds out what one may do.
type tokens struct {
	store *token.Store
	boxes jobs.Boxes
	tasks tasks.Tasks
}

func (t tokens) handle(mux *http.ServeMux) {
	api.Handle(mux, api.CreateToken, t.create)
	api.Handle(mux, api.ListTokens, func(context.Context, api.None, agentbox.Progress) ([]api.Token, error) { return t.store.List() })
	api.Handle(mux, api.RemoveToken, func(_ context.Context, req api.TokenRef, _ agentbox.Progress) (api.Token, error) {
		return t.store.Remove(req.Token)
	})
	api.Handle(mux, api.CheckToken, func(_ context.Context, req api.TokenText, _ agentbox.Progress) (api.Token, error) {
		return t.store.Check(req.Text)
	})
	api.Handle(mux, api.SealToken, func(_ context.Context, req api.SealRequest, _ agentbox.Progress) (api.Seal, error) {
		return t.store.Seal(req.ID, req.Text)
	})
	api.Handle(mux, api.FindSubject, t.subject)
}

func (t tokens) create(ctx context.Context, req api.TokenRequest, _ agentbox.Progress) (api.NewToken, error) {
	made := api.Token{Name: req.Name, Scope: req.Scope}
	if req.Directory != "" {
		p, err := sources.ProjectOf(ctx, req.Directory)
		if err != nil {
			return api.NewToken{}, err
		}
		made.Project = p.Name
	}
	return t.store.Create(made, req.Valid)
}

// subject resolves a request as the call itself would.
func (t tokens) subject(ctx context.Context, req api.SubjectRequest, _ agentbox.Progress) (api.Subject, error) {
	if req.Checkout {
		p, err := sources.ProjectOf(ctx, req.Directory)
		return api.Subject{Project: p.Name}, err
	}
	if id, err := agentbox.ParseTaskID(req.Box); err == nil && req.OrTask {
		if one, err := t.tasks.Queue.Store.Read(id); err == nil {
			return api.Subject{Task: one.ID.String(), Project: one.Project}, nil
		}
	}
	if req.Task != "" {
		id, err := t.tasks.Find(api.TaskRef{Task: req.Task})
		if err != nil {
			return api.Subject{}, err
		}
		one, err := t.tasks.Queue.Store.Read(id)
		return api.Subject{Task: one.ID.String(), Project: one.Project}, err
	}
	b, err := t.boxes.Find(ctx, req.BoxRef)
	if err != nil {
		return api.Subject{}, err
	}
	return api.Subject{Box: b.ID.String(), Project: b.Project}, nil
}
