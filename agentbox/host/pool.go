package host

import (
	"context"
	"errors"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/place"
)

// makePooled starts a machine, greets its guest, warms it up with an empty workspace and stops its
// CPUs. Of like, the record of somebody's box, it takes only what the key (Box.Template) stands for
// and nothing of the repository, so that any box of the same key may have the machine.
func (m *maker) makePooled(ctx context.Context, like record) (*box, error) {
	rec := like.newLike()
	rec.Phase = phasePool
	rec.Box = agentbox.Box{
		ID: agentbox.NewBoxID(), Isolation: like.Box.Isolation, Accel: like.Box.Accel, Image: like.Box.Image, Template: like.Box.Template,
		CPUs: like.Box.CPUs, Memory: like.Box.Memory, Disk: like.Box.Disk, Created: time.Now().UTC(),
	}
	b := &box{rec: rec}
	b.op.Lock()
	defer b.op.Unlock()
	if err := m.disk.prepare(b, rec); err != nil {
		return nil, err
	}
	m.boxes.put(b)
	if err := m.startParked(ctx, b); err != nil {
		return nil, errors.Join(err, m.removeLocked(b))
	}
	return b, nil
}

// startParked starts the machine of a box of the pool and stops its CPUs.
func (m *maker) startParked(ctx context.Context, b *box) error {
	rec := b.record()
	kind, err := m.disk.kind(rec)
	if err != nil {
		return err
	}
	if err := m.disk.checkRestorable(ctx, rec); err != nil {
		return err
	}
	if err := kind.Fill(ctx, rec.spec(), nil); err != nil {
		return err
	}
	if err := m.machines.start(ctx, b, launch{}, nil); err != nil {
		return err
	}
	return m.machines.park(ctx, b)
}

// Templates returns the templates that are here, by key, and where they came from.
func (m *Manager) Templates() (map[string]place.Origin, error) { return m.places.Templates.Origins() }

// DropTemplates removes the templates for which gone returns true, except those that boxes were
// made from: these boxes need them to be resumed. A box gets no new machine from a template whose
// maker is no longer trusted.
func (m *Manager) DropTemplates(gone func(place.Origin) bool) error {
	all, err := m.places.Templates.Origins()
	for key, origin := range all {
		if !gone(origin) {
			continue
		}
		if withdrawErr := m.pool.Withdraw(key); withdrawErr != nil || m.boxes.templates()[key] {
			err = errors.Join(err, withdrawErr)
			continue
		}
		err = errors.Join(err, m.places.Templates.Discard(key))
	}
	return err
}
