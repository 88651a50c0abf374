package qemu

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/vmm"
	"agentbox/vmm/memfile"
	"agentbox/vmm/statedir"
)

// SaveTemplate implements vmm.Templater. The machine is killed as soon as its device state is
// written: after that nothing changes its disk and its memory file, which we hold.
func (d *Driver) SaveTemplate(ctx context.Context, vm vmm.Machine, dir string) error {
	m, err := statedir.Unwrap[*machine](vm)
	if err != nil {
		return err
	}
	m.saving.Lock()
	defer m.saving.Unlock()
	if m.base != nil || m.spec.Workspace != "" {
		return errors.Join(m.Kill(), agentbox.Errorf(agentbox.Conflict, "%s cannot become a template: it was not booted without a workspace", m.spec.Name))
	}
	memory, err := memfile.Reopen(m.memory) // which the end of the machine closes
	if err != nil {
		return errors.Join(err, m.Kill())
	}
	defer memory.Close()
	return statedir.New(dir, func(tmp string) error {
		man := m.manifest()
		err := m.saveDevices(ctx, tmp, &man)
		if err := errors.Join(err, m.Kill()); err != nil {
			return err
		}
		if man.MemoryIndex, err = saveFile(ctx, tmp, memoryFile, memory, m.spec.Memory); err != nil {
			return err
		}
		disk, err := os.Open(m.runtime)
		if err != nil {
			return err
		}
		defer disk.Close()
		if man.DiskIndex, err = saveFile(ctx, tmp, templateDiskFile, disk, m.spec.Disk); err != nil {
			return err
		}
		return statedir.WriteManifest(tmp, man, durable.Create)
	})
}

func (m *machine) manifest() manifest {
	return manifest{Basis: statedir.BasisOf(formatVersion, m.fingerprint, m.spec)}
}

// Save implements vmm.Snapshotter. A passing state is like any with disks. Disks and memory are
// written at the same time, while the machine is frozen.
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
	if m.base == nil {
		return agentbox.Errorf(agentbox.Conflict, "%s cannot be saved: it was not restored from a template", m.spec.Name)
	}
	return statedir.New(dir, func(tmp string) error {
		man := m.manifest()
		man.Template = m.base.ID
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return m.saveDisks(ctx, tmp, how != vmm.InPlace, &man) })
		group.Go(func() error {
			if err := m.saveDevices(ctx, tmp, &man); err != nil {
				return err
			}
			return m.saveMemory(ctx, tmp, &man)
		})
		if err := group.Wait(); err != nil {
			return m.explain(err)
		}
		return statedir.WriteManifest(tmp, man, durable.Create)
	})
}

// saveDevices freezes the machine and writes the state of its devices, without memory and disks, to
// a synced file, and the digest to man.
//
// QEMU's ordinary migration would stream all memory of a private mapping. This command of its Xen
// support writes the devices only, works without Xen, and the result is loaded like any migration.
// As QEMU may open no file, it gets ours as a descriptor set, which it opens by a name of its own.
func (m *machine) saveDevices(ctx context.Context, dir string, man *manifest) error {
	path := filepath.Join(dir, devicesFile)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := m.Freeze(ctx); err != nil {
		return err
	}
	type set struct {
		ID int `json:"fdset-id"`
	}
	if err := m.qmp.run(ctx, quickCommand, "add-fd", set{1}, f); err != nil {
		return m.explain(err)
	}
	save := map[string]any{"filename": "/dev/fdset/1", "live": false}
	err = m.qmp.run(ctx, slowCommand, "xen-save-devices-state", save)
	// After a failure too, or QEMU would hold the file open. The first error is the one that counts.
	if remove := m.qmp.run(context.WithoutCancel(ctx), quickCommand, "remove-fd", set{1}); err == nil {
		err = remove
	}
	if err != nil {
		return m.explain(err)
	}
	if err := f.Sync(); err != nil {
		return err
	}
	state, err := os.ReadFile(path)
	man.Devices = agentbox.Digest(sha256.Sum256(state))
	return err
}

// saveMemory writes the pages in which the machine differs from its template: those of which its
// private mapping holds copies. Pages that the template has are kept even when they are zero now.
func (m *machine) saveMemory(ctx context.Context, dir string, man *manifest) error {
	memory, err := openProcessMemory(m.proc.PID, m.spec.Memory)
	if err != nil {
		return err
	}
	changed, err := memory.changed()
	if err != nil {
		return err
	}
	man.MemoryIndex, err = savePages(ctx, dir, memoryFile, m.spec.Memory, changed, memory, m.base.Memory.has)
	return err
}

// saveDisks copies the disks into dir, or syncs them where they are for a state in place: QEMU
// ignores the guest's flushes of the runtime layer.
func (m *machine) saveDisks(ctx context.Context, dir string, disks bool, man *manifest) error {
	if !disks {
		return errors.Join(syncFile(m.runtime), syncFile(m.workspace))
	}
	man.Disks = &savedDisks{Runtime: m.spec.Disk}
	if err := copyFile(ctx, filepath.Join(dir, savedRuntimeFile), m.runtime); err != nil {
		return err
	}
	if m.spec.Workspace == "" {
		return nil
	}
	man.Disks.Workspace = m.spec.Disk
	return copyFile(ctx, filepath.Join(dir, savedSpaceFile), m.workspace)
}

// syncFile makes the content of a file durable. Its name needs a sync of the directory.
func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// saveFile writes the first space bytes of a file, without zeros, as the page set called name.
func saveFile(ctx context.Context, dir, name string, f *os.File, space int64) (agentbox.Digest, error) {
	all, err := fileCandidates(f, space)
	if err != nil {
		return agentbox.Digest{}, err
	}
	none := func(int64) bool { return false }
	return savePages(ctx, dir, name, space, all, fileSpace{f}, none)
}

// savePages writes a page set, synced, and returns the digest of its index.
func savePages(ctx context.Context, dir, name string, space int64, from []candidate, src pageSource, keepZero func(int64) bool) (agentbox.Digest, error) {
	f, err := os.OpenFile(filepath.Join(dir, name+pagesSuffix), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return agentbox.Digest{}, err
	}
	x, err := writePages(ctx, f, space, from, src, keepZero)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return agentbox.Digest{}, err
	}
	index := x.encode()
	return agentbox.Digest(sha256.Sum256(index)), durable.Create(filepath.Join(dir, name+indexSuffix), index, 0o600)
}
