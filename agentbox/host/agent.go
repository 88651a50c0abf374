package host

import (
	"context"
	"maps"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/host/flags"
	"agentbox/agentbox/task/agents"
	"agentbox/agentbox/toolchain"
	"agentbox/agentbox/workspace"
)

// FindAgent gives the profile of an agent, if it may be run in boxes of a checkout.
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
	if len(o.Tools) > 0 && rec.Suite != "" {
		end := progress.Begin("agent", o.Agent+" is installed in the box, which was made without it")
		if _, err := m.setup.Install(ctx, m.inside(rec), o.Tools, toolchain.Candidates{}); err != nil {
			return err
		}
		end("")
	}
	b.set(func(b *box) {
		b.rec.Overrides = b.rec.Overrides.With(flags.Flags{Agent: o.Agent, Tools: o.Tools})
		if now := flags.SettingsOf(cfg); b.rec.Settings != nil {
			b.rec.Settings = maps.Clone(b.rec.Settings)
			b.rec.Settings["toolchain"] = now["toolchain"]
		}
	})
	return writeRecord(m.home, b.record())
}
