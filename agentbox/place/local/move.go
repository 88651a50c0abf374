package local

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sync/errgroup"
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

// Send implements place.Mover: the saved machine, then the workspace, in the time in which that machine and
// this one find out which of its pieces are there.
func (k kind) Send(ctx context.Context, spec place.Spec, to io.ReadWriter) error {
	if _, err := k.mover(spec); err != nil {
		return err
	}
	var own *hostdir.Pieces
	both, inner := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		own, err = hostdir.Cut(inner, k.workspacePath(spec))
		return err
	})
	both.Go(func() error {
		return hostdir.WriteArchive(inner, to, k.Home.Box(spec.ID).Saved(), stateLimit(spec), nil, nil)
	})
	if err := both.Wait(); err != nil {
		return err
	}
	there, err := hostdir.ReadDigests(to)
	if err != nil {
		return err
	}
	return hostdir.WriteArchive(ctx, to, k.workspacePath(spec), spec.Disk, own, there)
}

// Receive implements place.Mover.
func (k kind) Receive(ctx context.Context, spec place.Spec, like string, from io.ReadWriteCloser) error {
	m, err := k.mover(spec)
	if err != nil {
		return err
	}
	saved, workspace := k.Home.Box(spec.ID).Saved(), k.workspacePath(spec)
	var have hostdir.Index
	both, inner := errgroup.WithContext(ctx)
	both.Go(func() error {
		have = k.piecesLike(inner, spec, like)
		return have.WriteDigests(from)
	})
	both.Go(func() error {
		err := receiveTree(inner, saved, 0o700, from, stateLimit(spec), nil)
		if err != nil {
			err = errors.Join(err, from.Close()) // nobody reads what is being written
		}
		return err
	})
	if err := both.Wait(); err != nil {
		return err
	}
	both, inner = errgroup.WithContext(ctx)
	both.Go(func() error { return m.VerifySaved(inner, k.machine(spec), saved) })
	both.Go(func() error { return receiveTree(inner, workspace, 0o755, from, spec.Disk, have) })
	if err := both.Wait(); err != nil {
		return err
	}
	return syncTree(k.Home.Box(spec.ID).Dir)
}

// piecesLike are those of like and, of a box that comes back, of the workspace that it had.
func (k kind) piecesLike(ctx context.Context, spec place.Spec, like string) hostdir.Index {
	spec.Workspace--
	if before := k.workspacePath(spec); spec.Workspace > 0 {
		like = before
	}
	if like == "" {
		return hostdir.Index{}
	}
	all, err := hostdir.Cut(ctx, like)
	if err != nil {
		return hostdir.Index{} // it takes longer without them
	}
	return all.Index()
}

func receiveTree(ctx context.Context, dir string, mode os.FileMode, from io.Reader, limit int64, have hostdir.Index) error {
	if err := os.Mkdir(dir, mode); err != nil {
		return agentbox.MarkNoSpace(err)
	}
	if err := hostdir.ReadArchive(ctx, dir, from, limit, have); err != nil {
		return err
	}
	return os.Chmod(dir, mode) // whatever the umask
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
