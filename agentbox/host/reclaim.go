package host

import (
	"errors"
	"io/fs"
	"os"

	"agentbox/agentbox"
	"agentbox/vmm"
)

// reclaim gives everything below a directory back to us, where machines of a kind may leave files of others when they are
// killed.
func (m *Manager) reclaim(kind agentbox.Isolation, dir string) error {
	driver, err := m.chooser.Driver(kind)
	if err != nil {
		return err
	}
	if r, ok := driver.(vmm.Reclaimer); ok {
		return r.Reclaim(m.ctx, dir)
	}
	return nil
}

// reclaimAfterKill does so with the workspace of a box whose supervisor was killed, unless its next machine runs already.
func (m *Manager) reclaimAfterKill(b *box) {
	b.op.Lock()
	defer b.op.Unlock()
	rec := b.record()
	if rec.Phase != phaseReady || b.live() != nil {
		return
	}
	if err := m.reclaim(rec.Box.Isolation, rec.workspacePath(m.home)); err != nil {
		m.log.Warn("cannot reclaim a workspace", "box", rec.Box.ID, "error", err)
	}
}

// removeTree removes a directory of a box, whoever has left files in it.
func (m *Manager) removeTree(kind agentbox.Isolation, dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if err := m.reclaim(kind, dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}
