package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/home"
	"agentbox/agentbox/workspace"
)

// Fork makes a box that is a copy of another as it is now: memory, processes, runtime and workspace.
func (m *Manager) Fork(ctx context.Context, req api.ForkRequest, progress agentbox.Progress) (agentbox.Box, error) {
	if req.Name != "" {
		if err := checkName(req.Name); err != nil {
			return agentbox.Box{}, err
		}
		if m.nameTaken(req.Name) {
			return agentbox.Box{}, agentbox.Errorf(agentbox.Exists, "the name %s is taken", req.Name).WithHint("agentbox ls shows who has it")
		}
	}
	parent, err := m.find(ctx, req.BoxRef)
	if err != nil {
		return agentbox.Box{}, err
	}
	if err := m.wake(ctx, parent, progress); err != nil {
		return agentbox.Box{}, err
	}
	child, err := m.saveChild(ctx, parent, req.Name, progress)
	if err != nil {
		return agentbox.Box{}, err
	}
	child.op.Lock()
	defer child.op.Unlock()
	if err := m.startChild(ctx, child, progress); err != nil {
		return agentbox.Box{}, errors.Join(noSpace(err), m.erase(child))
	}
	return m.describe(ctx, child, brief)
}

// saveChild copies the parent's state into a new box, while the parent stands still.
func (m *Manager) saveChild(ctx context.Context, parent *box, name string, progress agentbox.Progress) (*box, error) {
	parent.op.Lock()
	defer parent.op.Unlock()
	prec, s := parent.record(), parent.live()
	if s == nil {
		return nil, notRunning(prec)
	}
	rec := prec
	rec.Phase, rec.Key, rec.Remote, rec.Ephemeral, rec.Life, rec.Workspace = phaseNew, "", "", false, 1, 1
	rec.Box.ID, rec.Box.Created = agentbox.NewBoxID(), time.Now().UTC()
	rec.Box.Parent, rec.Box.Lease, rec.Box.Checkpoint = &prec.Box.ID, newLease(rec), nil
	child := &box{rec: rec}
	if err := m.claim(child, rec, name, prec.Box.Name, "fork"); err != nil {
		return nil, errors.Join(err, m.erase(child))
	}
	if err := shareAuthority(prec.names(m.home), rec.names(m.home)); err != nil {
		return nil, errors.Join(noSpace(err), m.erase(child))
	}
	end := progress.Begin("save", prec.Box.Name)
	if _, err := api.Call(ctx, s.client, api.SupervisorSave, api.SaveRequest{Dir: rec.names(m.home).Saved()}, nil); err != nil {
		return nil, errors.Join(noSpace(err), m.erase(child))
	}
	end("")
	return child, nil
}

// shareAuthority gives a fork the certificate authority that its programs believe already. A box without a network has none.
func shareAuthority(parent, child home.Box) error {
	text, err := os.ReadFile(parent.Authority())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return durable.WriteFile(child.Authority(), text, 0o600)
}

func (m *Manager) startChild(ctx context.Context, child *box, progress agentbox.Progress) error {
	rec := child.record()
	template, err := m.templates.openKey(ctx, rec, rec.Box.Template)
	if err != nil {
		return err
	}
	if err := m.startMachine(ctx, child, template, rec.names(m.home).Saved(), nil, progress); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(rec.names(m.home).Saved()), m.applyPolicy(ctx, child)); err != nil {
		return err
	}
	rec = child.record()
	if repo, err := workspace.Describe(ctx, rec.Box.Directory); err == nil {
		if err := m.addRemote(ctx, repo, rec); err != nil {
			return err
		}
		rec.Remote = rec.Box.Name
	}
	rec.Phase = phaseReady
	if err := writeRecord(m.home, rec); err != nil {
		return err
	}
	child.set(func(b *box) { b.rec = rec })
	return nil
}

// Checkpoint saves the state of a box to come back to. The box goes on.
func (m *Manager) Checkpoint(ctx context.Context, req api.CheckpointRequest, progress agentbox.Progress) (agentbox.Checkpoint, error) {
	if req.Name != "" {
		if err := checkName(req.Name); err != nil {
			return agentbox.Checkpoint{}, err
		}
	}
	b, err := m.find(ctx, req.BoxRef)
	if err != nil {
		return agentbox.Checkpoint{}, err
	}
	if m.state(b) == agentbox.Paused { // its saved state fits its disks only until it runs again
		if err := m.wake(ctx, b, progress); err != nil {
			return agentbox.Checkpoint{}, err
		}
	}
	b.op.Lock()
	defer b.op.Unlock()
	rec, s := b.record(), b.live()
	if s == nil {
		return agentbox.Checkpoint{}, notRunning(rec)
	}
	for _, c := range rec.Box.Checkpoint {
		if req.Name != "" && c.Name == req.Name {
			return agentbox.Checkpoint{}, agentbox.Errorf(agentbox.Exists, "box %s already has a checkpoint %s", rec.Box.Name, c.Name)
		}
	}
	c := agentbox.Checkpoint{ID: agentbox.NewBoxID().String(), Name: req.Name, Created: time.Now().UTC()}
	dir := filepath.Join(rec.names(m.home).Checkpoints(), c.ID)
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return c, noSpace(err)
	}
	end := progress.Begin("checkpoint", rec.Box.Name)
	if _, err := api.Call(ctx, s.client, api.SupervisorSave, api.SaveRequest{Dir: dir}, nil); err != nil {
		return c, noSpace(err)
	}
	end("")
	c.Bytes = diskUsage(dir)
	rec.Box.Checkpoint = append(rec.Box.Checkpoint[:len(rec.Box.Checkpoint):len(rec.Box.Checkpoint)], c)
	if err := writeRecord(m.home, rec); err != nil {
		return c, errors.Join(err, os.RemoveAll(dir))
	}
	b.set(func(b *box) { b.rec = rec })
	return c, nil
}
