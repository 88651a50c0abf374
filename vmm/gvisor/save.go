package gvisor

import (
	"context"
	"crypto/sha256"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"agentbox/agentbox"
	"agentbox/vmm"
	"agentbox/vmm/hostdir"
	"agentbox/vmm/statedir"
)

// Save implements vmm.Snapshotter. The state is complete in itself, runtime layer included. A
// transient state (vmm.Transient) is neither hashed nor synced.
func (d *Driver) Save(ctx context.Context, vm vmm.Machine, dir string, how vmm.Saving) error {
	m, err := statedir.Unwrap[*machine](vm)
	if err != nil {
		return err
	}
	m.saving.Lock()
	defer m.saving.Unlock()
	if err := m.Freeze(ctx); err != nil {
		return err
	}
	man := manifest{
		Basis: statedir.BasisOf(formatVersion, m.fingerprint, m.spec), Images: map[string]image{},
		Disks: how != vmm.InPlace, Transient: how == vmm.Transient,
	}
	create := statedir.New
	if man.Transient {
		create = statedir.NewTransient
	}
	return create(dir, func(tmp string) error { return m.save(ctx, tmp, man) })
}

// save writes a saved state to dir, memory and workspace at the same time, since the machine is
// frozen. If the machine has ended, that is the error.
func (m *machine) save(ctx context.Context, dir string, man manifest) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return m.saveImages(ctx, dir, &man) })
	var listing *agentbox.Digest
	if man.Disks && m.spec.Workspace != "" {
		group.Go(func() (err error) {
			listing, err = m.saveWorkspace(ctx, filepath.Join(dir, workspaceDir), man.Transient)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return m.explain(err)
	}
	man.Workspace = listing
	return man.write(dir)
}

// saveImages freezes the machine and has the sandbox write its state, into files that are opened
// here, since the sandbox can open none of the host. A full disk is code NoSpace. It hashes the
// files afterwards, mostly from the page cache.
func (m *machine) saveImages(ctx context.Context, dir string, man *manifest) error {
	if err := m.Freeze(ctx); err != nil {
		return err
	}
	var files []*os.File
	defer func() { statedir.Close(files...) }()
	for _, name := range imageNames {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	if err := m.control.checkpoint(ctx, files[0], files[1], files[2]); err != nil {
		return m.explain(spaceError(dir, err))
	}
	for i, name := range imageNames {
		info, err := files[i].Stat()
		if err != nil {
			return err
		}
		if man.Transient {
			man.Images[name] = image{Size: info.Size()}
			continue
		}
		if man.Images[name], err = digestImage(ctx, files[i], info.Size()); err != nil {
			return err
		}
		if err := files[i].Sync(); err != nil {
			return err
		}
	}
	return nil
}

// saveWorkspace copies the workspace and returns the digest of its listing, zero for a passing
// state. It adopts the original first, as some files could not be read otherwise.
func (m *machine) saveWorkspace(ctx context.Context, dir string, passing bool) (*agentbox.Digest, error) {
	if err := adopt(ctx, m.launcher, m.spec.Workspace); err != nil { // the guest is frozen
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if err := hostdir.CopyTree(ctx, dir, m.spec.Workspace, 0); err != nil {
		return nil, err
	}
	if passing {
		return &agentbox.Digest{}, nil
	}
	return digestTree(dir)
}

func digestTree(dir string) (*agentbox.Digest, error) {
	h := sha256.New()
	if err := hostdir.ListTree(h, dir); err != nil {
		return nil, err
	}
	d := agentbox.Digest(h.Sum(nil))
	return &d, nil
}
