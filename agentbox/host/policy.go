package host

import (
	"context"
	"maps"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/cost"
	"agentbox/agentbox/host/egress"
	"agentbox/agentbox/host/supervisors"
)

// governed is whose policy a box has.
func (m *Manager) governed(rec record) egress.Governed {
	return m.Policies.Of(rec.Box.Directory, rec.Box.Project, rec.Approved)
}

// applyPolicy puts the policy of a box's checkout in force in its machine. Whatever fails, the box is left with the policy
// it had, and a fresh machine has none: nothing leaves it.
func (m *Manager) applyPolicy(ctx context.Context, b *box) error {
	rec, s := b.record(), b.live()
	if s == nil || rec.Phase == phasePool {
		return nil
	}
	return m.enforce(ctx, s, rec)
}

// enforce tells a supervisor what its box may do.
func (m *Manager) enforce(ctx context.Context, s *supervisors.Supervisor, rec record) error {
	s.Policy.Lock()
	defer s.Policy.Unlock()
	limits := rec.Limits
	if limits.Cost > 0 {
		rates, err := cost.Load(m.home.Rates())
		if err != nil {
			return err
		}
		limits.Rates = rates
	}
	req, err := m.Policies.InForce(ctx, m.governed(rec), rec.Seed, limits)
	if err != nil {
		return err
	}
	_, err = api.Call(ctx, s.Client, api.SupervisorPolicy, req, nil)
	return err
}

// environment is what the commands of a box have: what its packages need, under its configuration, under its secrets.
func (m *Manager) environment(rec record, packages map[string]string) map[string]string {
	env := maps.Clone(packages)
	maps.Copy(env, rec.Attach.Env)
	maps.Copy(env, m.Policies.Placeholders(m.governed(rec), rec.Seed))
	return env
}

// regovern puts a box that is there already under what its repository asks for now, if that is
// approved. While a plan waits the box stays as it was made: what the plan asks of this host it has
// not got, and gets no sooner than by a reset.
func (m *Manager) regovern(ctx context.Context, b *box, p plan, progress agentbox.Progress) error {
	r, err := m.consent.Ask(ctx, p.repo.Root, p.cfg, b.record().flagsNow(), progress)
	if pending, _ := r.Pending(); pending || err != nil {
		if pending {
			return nil
		}
		return err
	}
	if b.record().Approved == r.InForce {
		return nil
	}
	if err := m.putUnder(b, r.InForce); err != nil {
		return err
	}
	return m.applyPolicy(ctx, b)
}

// putUnder writes down which approved document governs a box.
func (m *Manager) putUnder(b *box, document string) error {
	if b.record().Approved == document {
		return nil
	}
	b.set(func(b *box) { b.rec.Approved = document })
	return writeRecord(m.home, b.record())
}

// policed are the boxes as their policies see them.
type policed struct{ m *Manager }

// Governed implements egress.Boxes.
func (p policed) Governed(ctx context.Context, ref api.BoxRef) (agentbox.BoxID, egress.Governed, error) {
	b, err := p.m.boxes.find(ctx, ref)
	if err != nil {
		return agentbox.BoxID{}, egress.Governed{}, err
	}
	rec := b.record()
	return rec.Box.ID, p.m.governed(rec), nil
}

// Running implements egress.Boxes.
func (p policed) Running() []egress.Box {
	var out []egress.Box
	for _, b := range p.m.boxes.all() {
		if rec := b.record(); rec.Phase != phasePool && rec.Phase != phaseRemoving && b.live() != nil {
			out = append(out, policedBox{p.m, b})
		}
	}
	return out
}

// PutUnder implements egress.Boxes.
func (p policed) PutUnder(root, branch, document string) error {
	for _, b := range p.m.boxes.all() {
		if rec := b.record(); rec.Phase == phaseReady && rec.Box.Directory == root && rec.Box.Branch == branch {
			if err := p.m.putUnder(b, document); err != nil {
				return err
			}
		}
	}
	return nil
}

// policedBox is an egress.Box.
type policedBox struct {
	m *Manager
	b *box
}

func (p policedBox) Name() string                    { return p.b.record().Box.Name }
func (p policedBox) Governed() egress.Governed       { return p.m.governed(p.b.record()) }
func (p policedBox) Apply(ctx context.Context) error { return p.m.applyPolicy(ctx, p.b) }
func (p policedBox) Runs() bool                      { return p.b.live() != nil }
func (p policedBox) Stop() error                     { return p.m.endMachine(p.b) }

// Unlogged implements egress.Box.
func (p policedBox) Unlogged(ctx context.Context) bool {
	s := p.b.live()
	if s == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	st, err := api.Call(ctx, s.Client, api.SupervisorStatusE, api.StatusRequest{}, nil)
	return err == nil && st.Unlogged
}
