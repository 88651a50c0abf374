package host

import (
	"context"
	"maps"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/host/conversations"
	"agentbox/agentbox/host/flags"
	"agentbox/agentbox/task/agents"
	"agentbox/agentbox/toolchain/resolve"
	"agentbox/agentbox/workspace"
)

// FindAgent returns the profile of an agent for boxes of a checkout. Conflict for a profile from
// the repository that nobody has approved.
func (m *Manager) FindAgent(ctx context.Context, req api.AgentRequest, _ agentbox.Progress) (agents.Profile, error) {
	repo, err := workspace.Describe(ctx, req.Directory)
	if err != nil {
		return agents.Profile{}, err
	}
	return m.consent.Agent(ctx, repo.Root, config.Place{Directory: req.Directory, Devcontainer: req.Devcontainer}, req.Agent, req.Environ)
}

// ListAgents returns all agents for boxes of a checkout, or those of the user outside of one. The
// repository's own are listed although they run only once approved: users learn of them from this
// list. An invalid profile must not hide the others.
func (m *Manager) ListAgents(ctx context.Context, ref api.PolicyRef, _ agentbox.Progress) ([]api.AgentInfo, error) {
	dirs := agents.Dirs{User: m.home.Agents()}
	if repo, err := workspace.Describe(ctx, ref.Directory); err == nil {
		dirs.Repository = repo.Root
	}
	all := []api.AgentInfo{}
	for _, name := range dirs.Names() {
		p, err := dirs.Find(name)
		if err != nil {
			p = agents.Profile{Name: name, Origin: p.Origin, Description: agentbox.AsError(err).Message}
		}
		all = append(all, api.AgentInfo{Name: p.Name, Description: p.Description, Program: p.Program, Origin: p.Origin})
	}
	return all, nil
}

// addAgent installs an agent in a box that was made without it. The box keeps running and loses
// nothing; after the next reset the agent is in its image. cfg is the configuration with the
// overrides applied.
func (m *Manager) addAgent(ctx context.Context, b *box, cfg *config.Config, o flags.Flags, progress agentbox.Progress) error {
	rec := b.record()
	if o.Agent == "" || o.Agent == rec.Overrides.Agent {
		return nil
	}
	// Packages can only be installed in an image of the distribution. Any other image has the agent
	// already, or the user's command fails because it is missing.
	if len(o.Tools) > 0 && rec.Suite != "" {
		end := progress.Begin("agent", o.Agent+" is installed in the box, which was made without it")
		if _, err := m.setup.Install(ctx, rec.setupBox(m.home), o.Tools, resolve.Candidates{}); err != nil {
			return err
		}
		end("")
	}
	return b.change(m.home, func(rec *record) {
		rec.Overrides = rec.Overrides.With(flags.Flags{Agent: o.Agent, Tools: o.Tools})
		// The box has these tools now, so the next up must not report them as a change.
		if now := flags.SettingsOf(cfg); rec.Settings != nil {
			rec.Settings = maps.Clone(rec.Settings)
			rec.Settings["toolchain"] = now["toolchain"]
		}
	})
}

// KeepHistory saves what the agents of a box remember of their conversations. It does not wake the
// box.
func (m *Manager) KeepHistory(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (api.None, error) {
	b, err := m.boxes.find(ctx, ref)
	if err != nil {
		return api.None{}, err
	}
	for _, agent := range m.keepHistory(ctx, b, progress) {
		progress.Note(agent + " left nothing to keep in ~/" + strings.Join(b.record().Histories[agent], ", ~/") + " of box " + b.record().Box.Name)
	}
	return api.None{}, nil
}

// keepHistory saves the agents' conversations in a box if it runs. Failures are reported and stop
// nothing, since no conversation is worth a box that cannot be paused or removed. It returns the
// agents that have no conversations in the box.
func (m *Manager) keepHistory(ctx context.Context, b *box, progress agentbox.Progress) (without []string) {
	rec := b.record()
	if len(rec.Histories) == 0 || b.state(m.disk) != agentbox.Running {
		return nil
	}
	places := map[string]conversations.Place{}
	for agent, dirs := range rec.Histories {
		places[agent] = conversations.Place{Dirs: dirs, Save: rec.HistorySaves[agent]}
	}
	return m.conversations.Save(ctx, m.conversationBox(ctx, rec), places, progress)
}

// wakeTimeout is how long a paused box may take to wake before it is dropped. A resume that is under
// way by then goes on for resumeGrace.
const wakeTimeout = 30 * time.Second

// keepLastHistory is keepHistory before the memory and the home of a box are dropped. It wakes a
// paused box, because nobody has saved its conversations if it was paused at the end of its lease or
// at a limit. A box that cannot be woken loses them, and the user is told. The caller holds op. The
// only error is that of ctx: somebody who interrupts has lost nothing yet.
func (m *Manager) keepLastHistory(ctx context.Context, b *box, progress agentbox.Progress) error {
	if rec := b.record(); len(rec.Histories) > 0 && rec.Phase == phaseReady && rec.MovedTo == nil && b.state(m.disk) == agentbox.Paused {
		waking, cancel := context.WithTimeoutCause(ctx, wakeTimeout, agentbox.Errorf(agentbox.Unavailable, "it takes longer than %s", wakeTimeout))
		if err := m.resume(waking, b, progress); err != nil && ctx.Err() == nil {
			m.log.Warn("cannot wake a box to keep its agents' history", "box", rec.Box.ID, "error", err)
			progress.Note("the latest conversations of agents in box " + rec.Box.Name + " are not kept: " + agentbox.AsError(err).Message)
		}
		cancel()
	}
	if ctx.Err() == nil {
		m.keepHistory(ctx, b, progress)
	}
	return context.Cause(ctx)
}

func (m *Manager) conversationBox(ctx context.Context, rec record) conversations.Box {
	return conversations.Box{
		ID: rec.Box.ID, Name: rec.Box.Name, Project: m.Policies.ScopeOf(ctx, rec.subject(m.home)).Project.ID(),
		Open: func(ctx context.Context) (conversations.Guest, error) {
			return conversations.Open(ctx, rec.address(m.home), rec.User)
		},
	}
}

// restoreHistory gives an agent its earlier conversations about the project, once in each life of
// the box, and has new ones kept from then on. The conversations that are in the box already are
// kept first, so that restoring loses none.
func (m *Manager) restoreHistory(ctx context.Context, b *box, agent agents.Profile, progress agentbox.Progress) error {
	rec := b.record()
	if len(agent.Sessions) == 0 || rec.Task || rec.Recalled[agent.Name] == rec.Life {
		return nil
	}
	var dirs []string
	for _, dir := range agent.Sessions {
		dirs = append(dirs, strings.TrimPrefix(dir, "~/"))
	}
	if err := b.change(m.home, func(rec *record) {
		if agent.Save != "" {
			rec.HistorySaves = withEntry(rec.HistorySaves, agent.Name, agent.Save)
		}
		rec.Histories, rec.Recalled = withEntry(rec.Histories, agent.Name, dirs), withEntry(rec.Recalled, agent.Name, rec.Life)
	}); err != nil {
		return err
	}
	m.keepHistory(ctx, b, progress)
	if err := m.conversations.Restore(ctx, m.conversationBox(ctx, rec), agent.Name, agent.Restore); err != nil {
		progress.Note(agent.Name + " does not remember earlier conversations in box " + rec.Box.Name + ": " + err.Error())
	}
	return nil
}

// withEntry returns a copy of a map with one more entry. Copies of a record share its maps, so
// these are never written to.
func withEntry[V any](m map[string]V, key string, value V) map[string]V {
	out := map[string]V{key: value}
	for k, v := range m {
		if k != key {
			out[k] = v
		}
	}
	return out
}
