package host

import (
	"context"
	"maps"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/host/flags"
	"agentbox/agentbox/host/recall"
	"agentbox/agentbox/task/agents"
	"agentbox/agentbox/toolchain"
	"agentbox/agentbox/workspace"
)

// FindAgent gives the profile of an agent, if it may be run in boxes of a checkout. A profile that
// the repository brings is Conflict until somebody has approved it.
func (m *Manager) FindAgent(ctx context.Context, req api.AgentRequest, _ agentbox.Progress) (agents.Profile, error) {
	repo, err := workspace.Describe(ctx, req.Directory)
	if err != nil {
		return agents.Profile{}, err
	}
	return m.consent.Agent(ctx, repo.Root, req.Agent, req.Environ)
}

// addAgent installs an agent in a box that was made without it. The box keeps everything it has and
// runs; from the next reset on the agent is in its image. cfg is the configuration with the
// overrides applied.
func (m *Manager) addAgent(ctx context.Context, b *box, cfg *config.Config, o flags.Flags, progress agentbox.Progress) error {
	rec := b.record()
	if o.Agent == "" || o.Agent == rec.Overrides.Agent {
		return nil
	}
	// Only in an image of the distribution can its packages be installed; any other image has the
	// agent itself, or the user's command says that it is missing.
	if len(o.Tools) > 0 && rec.Suite != "" {
		end := progress.Begin("agent", o.Agent+" is installed in the box, which was made without it")
		if _, err := m.setup.Install(ctx, rec.inside(m.home), o.Tools, toolchain.Candidates{}); err != nil {
			return err
		}
		end("")
	}
	return b.change(m.home, func(rec *record) {
		rec.Overrides = rec.Overrides.With(flags.Flags{Agent: o.Agent, Tools: o.Tools})
		// What was installed is what the configuration asks for now: the next up must not report it
		// as a change that needs a reset.
		if now := flags.SettingsOf(cfg); rec.Settings != nil {
			rec.Settings = maps.Clone(rec.Settings)
			rec.Settings["toolchain"] = now["toolchain"]
		}
	})
}

// KeepHistory keeps what the agents of a box remember of their conversations. A box that does not
// run is not woken for it.
func (m *Manager) KeepHistory(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (api.None, error) {
	b, err := m.boxes.find(ctx, ref)
	if err == nil {
		m.keepHistory(ctx, b, progress)
	}
	return api.None{}, err
}

// keepHistory keeps what is remembered in a box, if it runs. It is called before everything that
// takes a machine away (pause, reset, remove), and its failures are told and end nothing: no
// conversation is worth a box that cannot be removed.
func (m *Manager) keepHistory(ctx context.Context, b *box, progress agentbox.Progress) {
	if rec := b.record(); len(rec.Histories) > 0 && b.live() != nil {
		m.recall.Keep(ctx, m.remembering(rec), rec.Histories, progress)
	}
}

// remembering is a box as recall sees it.
func (m *Manager) remembering(rec record) recall.Box {
	return recall.Box{
		ID: rec.Box.ID, Name: rec.Box.Name, Project: m.Policies.Of(rec.subject()).Project.ID(),
		Open: func(ctx context.Context) (recall.Guest, error) {
			return recall.Open(ctx, rec.address(m.home), rec.User)
		},
	}
}

// remind gives an agent of a box what it remembers of earlier conversations about the project, once
// in each life of the box, and has what comes to that kept from then on. What is in the box already
// is kept first, so that giving back takes nothing away.
func (m *Manager) remind(ctx context.Context, b *box, agent agents.Profile, progress agentbox.Progress) error {
	rec := b.record()
	if len(agent.Sessions) == 0 || rec.Task || rec.Recalled[agent.Name] == rec.Life {
		return nil
	}
	var dirs []string
	for _, dir := range agent.Sessions {
		dirs = append(dirs, strings.TrimPrefix(dir, "~/"))
	}
	if err := b.change(m.home, func(rec *record) {
		rec.Histories, rec.Recalled = with(rec.Histories, agent.Name, dirs), with(rec.Recalled, agent.Name, rec.Life)
	}); err != nil {
		return err
	}
	m.keepHistory(ctx, b, progress)
	if err := m.recall.Give(ctx, m.remembering(rec), agent.Name); err != nil {
		progress.Say(agent.Name + " does not remember earlier conversations in box " + rec.Box.Name + ": " + err.Error())
	}
	return nil
}

// with is a copy of a map with one more entry. Records are copied with their maps in them, so a map
// in one is never written to.
func with[V any](m map[string]V, key string, value V) map[string]V {
	out := map[string]V{key: value}
	for k, v := range m {
		if k != key {
			out[k] = v
		}
	}
	return out
}
