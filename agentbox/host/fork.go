package host

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/home"
	"agentbox/agentbox/place"
	"agentbox/agentbox/workspace"
)

// Fork makes a box that is a copy of another as it is now: memory, processes, runtime and
// workspace. The parent stands still while it is saved, and its op is released as soon as that is
// done. If Fork fails, nothing of the child is left and the parent goes on.
func (m *Manager) Fork(ctx context.Context, req api.ForkRequest, progress agentbox.Progress) (agentbox.Box, error) {
	if req.Name != "" {
		if err := checkName(req.Name); err != nil {
			return agentbox.Box{}, err
		}
		// An early error, before the parent is woken. claim checks again.
		if err := m.boxes.checkFree(req.Name); err != nil {
			return agentbox.Box{}, err
		}
	}
	parent, err := m.findRunning(ctx, req.BoxRef, progress)
	if err != nil {
		return agentbox.Box{}, err
	}
	parent.op.Lock()
	release := sync.OnceFunc(parent.op.Unlock)
	defer release()
	saver, err := m.disk.saver(ctx, parent, "forked")
	if err != nil {
		return agentbox.Box{}, err
	}
	child, err := m.maker.childRecord(parent, req)
	if err != nil {
		return agentbox.Box{}, err
	}
	child.op.Lock()
	defer child.op.Unlock()
	save := func() error {
		defer release()
		end := progress.Begin("save", parent.record().Box.Name)
		if err := saver.Fork(ctx, child.record().Box.ID); err != nil {
			return err
		}
		end("")
		return nil
	}
	if err := m.maker.startChild(ctx, child, save, progress); err != nil {
		return agentbox.Box{}, errors.Join(agentbox.MarkNoSpace(err), m.maker.removeLocked(child))
	}
	return m.describe(ctx, child, brief), nil
}

// childRecord makes the record of a copy of a running box. It shares the seed, since the parent's
// memory already holds placeholders made from it, and what the processes rely on: the certificate
// authority and the state in which the workspace began. It gets its own lease, id and name, and no
// checkpoints. The caller holds the parent's op.
func (m *maker) childRecord(parent *box, req api.ForkRequest) (*box, error) {
	prec := parent.record()
	if parent.place() == nil {
		return nil, notRunning(prec)
	}
	rec := prec.newLike()
	var err error
	if rec.Box.Labels, err = relabel(prec.Box.Labels, req.Labels); err != nil {
		return nil, err
	}
	rec.Box.ID, rec.Box.Created = agentbox.NewBoxID(), time.Now().UTC()
	rec.Box.Parent, rec.Box.Lease, rec.Box.Checkpoint = &prec.Box.ID, newLease(), nil
	// Also of a task's box: the queue does not know the copy, and its user comes back.
	rec.Task, rec.Limits.Pause = false, true
	child := &box{rec: rec}
	if err := m.claim(child, rec, req.Name, prec.Box.Name, "fork"); err != nil {
		return nil, errors.Join(err, m.removeLocked(child))
	}
	err = copyAuthority(prec.names(m.home), rec.names(m.home))
	if err == nil {
		err = copyBaseline(prec.names(m.home), rec.names(m.home))
	}
	if err != nil {
		return nil, errors.Join(agentbox.MarkNoSpace(err), m.removeLocked(child))
	}
	return child, nil
}

// copyBaseline copies the record of what was uncommitted when the parent began.
func copyBaseline(parent, child home.Box) error {
	err := os.CopyFS(child.Baseline(), os.DirFS(parent.Baseline()))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// copyAuthority copies the certificate authority that the programs in the box already trust. A box
// without a network has none.
func copyAuthority(parent, child home.Box) error {
	text, err := os.ReadFile(parent.Authority())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return durable.WriteFile(child.Authority(), text, 0o600)
}

// startChild starts the child's supervisor, which prepares while save writes the parent's state,
// and then its machine (launch.complete). If the checkout is gone, the fork is made without a git
// remote.
func (m *maker) startChild(ctx context.Context, child *box, save func() error, progress agentbox.Progress) error {
	rec := child.record()
	if err := m.disk.checkRestorable(ctx, rec); err != nil {
		return err
	}
	if err := m.machines.start(ctx, child, launch{from: place.From{Forked: true}, complete: save}, progress); err != nil {
		return err
	}
	if err := errors.Join(m.disk.dropKept(rec, true), m.machines.restored(ctx, child, progress)); err != nil {
		return err
	}
	repo, err := workspace.Describe(ctx, rec.Box.Directory)
	if err != nil || rec.Box.Elsewhere {
		repo = workspace.Repo{} // its checkout is gone, or elsewhere
	}
	return m.ready(ctx, child, repo, progress)
}
