package handover

import (
	"context"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/team"
	"agentbox/mesh/catalogue"
)

// Contexts lists the boxes and tasks of this machine for its team, which `ls --team` shows on the
// other machines. It leaves out what is private: directories, command lines and prompts. It runs
// anew for each announcement to the team.
func (h *Handover) Contexts(ctx context.Context) ([]team.Context, error) {
	boxes, err := h.Boxes.List(ctx, api.ListRequest{}, nil)
	if err != nil {
		return nil, err
	}
	var out []team.Context
	for _, b := range boxes {
		out = append(out, team.Context{
			Kind: catalogue.Box, ID: b.ID.String(), Name: b.Name, State: string(b.State), Project: b.Project, Branch: b.Branch, Isolation: string(b.Isolation),
		})
	}
	// Only open tasks, since one that has ended is no current work, and those that others may enter; of
	// thousands, as many as are announced.
	open := h.Queue.Open()
	for _, all := range [][]*agentbox.Task{open, h.shared(open)} {
		for i := range all[:min(len(all), team.MaxContexts)] {
			out = append(out, h.taskContext(*all[i]))
		}
	}
	return append(out, h.Copies.announced()...), nil
}

// taskContext is what the team is told of a task. Its prompt or command is private to its owner.
func (h *Handover) taskContext(t agentbox.Task) team.Context {
	name := t.Agent
	if name == "" && len(t.Command) > 0 {
		name = filepath.Base(t.Command[0])
	}
	return team.Context{
		Kind: catalogue.Task, ID: t.ID.String(), Name: name, State: string(t.State), Project: t.Project, Isolation: string(t.Isolation),
		Copies: h.Copies.choose(t), Version: versionOf(t),
	}
}
