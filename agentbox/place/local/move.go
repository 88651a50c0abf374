package local

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/place"
	"agentbox/vmm"
	"agentbox/vmm/hostdir"
)

// mover is the driver if its saved machines fit others hosts'.
func (k kind) mover(spec place.Spec) (vmm.Mover, error) {
	m, ok := k.driver.(vmm.Mover)
	switch {
	case !ok:
		return nil, agentbox.Errorf(agentbox.Conflict, "%s isolation moves no processes", spec.Kind)
	case spec.GPUs != 0:
		return nil, agentbox.Errorf(agentbox.Conflict, "it has a GPU of its machine")
	}
	return m, nil
}

// Basis implements place.Mover.
func (k kind) Basis(ctx context.Context, spec place.Spec) (map[string]agentbox.Digest, error) {
	m, err := k.mover(spec)
	if err != nil {
		return nil, err
	}
	return m.Basis(ctx, k.machine(spec))
}

// stateLimit is how many bytes the saved machine of a box may have: its memory, its runtime layer, and
// what the sandbox knows of them.
func stateLimit(spec place.Spec) int64 { return 2*spec.Memory + spec.Disk + 1<<30 }

// Send implements place.Mover: the saved machine, then the workspace.
func (k kind) Send(ctx context.Context, spec place.Spec, w io.Writer) error {
	if _, err := k.mover(spec); err != nil {
		return err
	}
	if err := hostdir.WriteArchive(ctx, w, k.Home.Box(spec.ID).Saved(), stateLimit(spec)); err != nil {
		return err
	}
	return hostdir.WriteArchive(ctx, w, k.workspacePath(spec), spec.Disk)
}

// Receive implements place.Mover.
func (k kind) Receive(ctx context.Context, spec place.Spec, r io.Reader) error {
	m, err := k.mover(spec)
	if err != nil {
		return err
	}
	saved, workspace := k.Home.Box(spec.ID).Saved(), k.workspacePath(spec)
	for _, one := range []struct {
		dir   string
		mode  os.FileMode
		limit int64
	}{{saved, 0o700, stateLimit(spec)}, {workspace, 0o755, spec.Disk}} {
		if err := os.Mkdir(one.dir, one.mode); err != nil {
			return agentbox.MarkNoSpace(err)
		}
		if err := hostdir.ReadArchive(ctx, one.dir, r, one.limit); err != nil {
			return err
		}
	}
	if err := os.Chmod(workspace, 0o755); err != nil { // whatever the umask
		return err
	}
	if err := m.VerifySaved(ctx, k.machine(spec), saved); err != nil {
		return err
	}
	return syncTree(k.Home.Box(spec.ID).Dir)
}

// syncTree waits until everything below a directory is on disk, with all else of its file system: there
// may be hundreds of thousands of files.
func syncTree(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = unix.Syncfs(int(d.Fd()))
	return errors.Join(err, d.Close(), durable.SyncDir(dir))
}
