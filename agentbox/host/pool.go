package host

import (
	"context"
	"errors"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// newPooled restores one machine, greets its guest, warms it up for a lease with an empty workspace and stops its CPUs. The
// workspace is filled when a box needs it.
func (m *Manager) newPooled(ctx context.Context, like record) (*box, error) {
	rec := like
	rec.Phase, rec.Key, rec.Remote, rec.Life, rec.Workspace = phasePool, "", "", 1, 1
	rec.Box = agentbox.Box{
		ID: agentbox.NewBoxID(), Isolation: like.Box.Isolation, Accel: like.Box.Accel, Image: like.Box.Image, Template: like.Box.Template,
		CPUs: like.Box.CPUs, Memory: like.Box.Memory, Disk: like.Box.Disk, Created: time.Now().UTC(),
	}
	b := &box{rec: rec}
	b.op.Lock()
	defer b.op.Unlock()
	if err := m.commitLife(b, rec); err != nil {
		return nil, err
	}
	m.boxes.put(b)
	if err := m.startPooled(ctx, b); err != nil {
		return nil, errors.Join(err, m.erase(b))
	}
	return b, nil
}

func (m *Manager) startPooled(ctx context.Context, b *box) error {
	rec := b.record()
	template, err := m.templates.OpenKey(ctx, m.machine(rec), rec.Box.Template)
	if err != nil {
		return err
	}
	driver, err := m.chooser.Driver(rec.Box.Isolation)
	if err != nil {
		return err
	}
	if err := driver.NewWorkspace(ctx, rec.workspacePath(m.home), "", rec.Box.Disk); err != nil {
		return err
	}
	if err := m.startMachine(ctx, b, template, "", nil, nil); err != nil {
		return err
	}
	_, err = api.Call(ctx, b.live().Client, api.SupervisorHold, api.None{}, nil)
	return err
}
