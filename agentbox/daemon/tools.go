package daemon

import (
	"context"
	"log/slog"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/task/agents"
	"agentbox/agentbox/toolgate"
)

// tools are the handlers about the MCP servers of this host.
type tools struct {
	gate   *toolgate.Gate
	policy interface {
		Project(ctx context.Context, ref api.BoxRef) (string, error)
	}
}

func (d *daemon) newTools() tools {
	t := tools{policy: d.boxes.Policies}
	t.gate = &toolgate.Gate{
		Registry: &toolgate.Registry{File: d.cfg.Home.Tools(), Logins: d.cfg.Home.ToolLogins()}, Version: d.cfg.Version, Log: d.cfg.Log,
		ProjectOf: func(ctx context.Context, box string) (string, error) {
			return t.policy.Project(ctx, api.BoxRef{Box: box})
		},
	}
	return t
}

// serve serves boxes until ctx ends.
func (t tools) serve(ctx context.Context, socket string, log *slog.Logger) {
	l, err := api.Listen(socket)
	if err == nil {
		err = t.gate.Serve(ctx, l)
	}
	if err != nil && ctx.Err() == nil {
		log.Error("boxes get no tools of this host", "error", err)
	}
}

func (t tools) add(ctx context.Context, req api.ToolServerRequest, _ agentbox.Progress) (api.ToolServer, error) {
	s := req.Server
	if s.Project = ""; !req.Everywhere {
		project, err := t.policy.Project(ctx, req.BoxRef)
		if err != nil {
			return s, err
		}
		s.Project = project
	}
	if err := t.gate.Registry.Add(s); err != nil {
		return s, err
	}
	t.gate.Remember(req.Environ)
	return s, nil
}

// list is what boxes of a checkout get; outside of one, what boxes of all projects do.
func (t tools) list(ctx context.Context, ref api.PolicyRef, _ agentbox.Progress) ([]api.ToolServer, error) {
	t.gate.Remember(ref.Environ)
	project, _ := t.policy.Project(ctx, ref.BoxRef)
	list, err := t.gate.Registry.For(project)
	return append([]api.ToolServer{}, list...), err
}

func (t tools) remove(ctx context.Context, ref api.ToolServerRef, _ agentbox.Progress) (api.None, error) {
	project, _ := t.policy.Project(ctx, ref.BoxRef)
	return api.None{}, t.gate.Registry.Remove(ref.Name, project)
}

func (t tools) login(ctx context.Context, req api.ToolLogin, progress agentbox.Progress) (api.None, error) {
	t.gate.Remember(req.Environ)
	project, _ := t.policy.Project(ctx, req.BoxRef)
	s, err := t.gate.Registry.Find(req.Name, project)
	if err != nil {
		return api.None{}, err
	}
	return api.None{}, t.gate.Login(ctx, s, req.ClientID, func(page string) { progress.Begin(api.LoginStep, page) })
}

// findAgent is FindAgent with the flags by which the agent connects to the box's servers, if any.
func (d *daemon) findAgent(ctx context.Context, req api.AgentRequest, progress agentbox.Progress) (agents.Profile, error) {
	p, err := d.boxes.FindAgent(ctx, req, progress)
	if err != nil || len(p.Tools) == 0 {
		return p, err
	}
	servers, err := d.tooling.list(ctx, req.PolicyRef, nil)
	if len(servers) > 0 {
		p.Flags = append(p.Flags, p.Tools...)
	}
	return p, err
}
