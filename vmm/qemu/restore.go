package qemu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/vmm"
	"agentbox/vmm/statedir"
)

// Restore implements vmm.Snapshotter. QEMU starts while the disks are being filled, since it reads
// nothing of them before the guest runs; it asks for their size at once, so they have that before.
// On failure QEMU has ended and new files are removed.
func (d *Driver) Restore(ctx context.Context, spec vmm.Spec, from vmm.Template, saved string) (vmm.Machine, error) {
	t, err := statedir.Unwrap[*template](from)
	if err != nil {
		return nil, err
	}
	man, err := t.origin(saved)
	if err != nil {
		return nil, err
	}
	r := &restoration{spec: spec, template: t, dir: saved, man: man}
	m, err := r.run(ctx, d)
	if err != nil {
		err = statedir.HostError(errors.Join(err, r.undo()))
		if r.released {
			err = &vmm.MayHaveRun{Cause: err}
		}
		return nil, err
	}
	return m, nil
}

type restoration struct {
	spec     vmm.Spec
	template *template
	dir      string     // of the saved state; "" restores the template
	man      manifest   // of the saved state or else the template
	memory   *pageIndex // of the saved state
	devices  []byte     // of the saved state
	made     []string   // files to remove when it fails
	released bool       // the guest may have run
}

// readSaved reads the device state and the index of the pages of the saved state, and checks both
// against the manifest. Without a saved state it does nothing.
func (r *restoration) readSaved() (err error) {
	if r.dir == "" {
		return nil
	}
	if r.devices, err = readDigested(r.dir, devicesFile, r.man.Devices); err != nil {
		return err
	}
	r.memory, _, err = readIndex(r.dir, memoryFile, r.man.MemoryIndex, r.man.Memory)
	return err
}

// run makes the machine. It compares the fingerprint before QEMU runs, since QEMU cannot know that
// it or the kernel was replaced.
func (r *restoration) run(ctx context.Context, d *Driver) (*machine, error) {
	m, cmd, err := d.prepare(ctx, r.spec)
	if err != nil {
		return nil, err
	}
	disks := r.man.Disks
	if err := r.man.Fits(r.spec, m.fingerprint, "QEMU, kernel", disks != nil, disks != nil && disks.Workspace != 0); err != nil {
		return nil, err
	}
	if err := r.readSaved(); err != nil {
		return nil, err
	}
	fill, err := r.disks()
	if err != nil {
		return nil, err
	}
	m.base, cmd.Incoming = &r.template.templateBase, true
	state, fed, err := r.state()
	if err != nil {
		return nil, err
	}
	err = d.start(m, cmd, r.template.memory, state)
	state.Close()
	if err == nil {
		if err = r.load(ctx, m, fill); err != nil {
			err = m.abandon(err)
		}
	}
	<-fed
	if err != nil {
		return nil, err
	}
	return m, nil
}

// state is a pipe with the device state: QEMU 11 accepts no inherited file, 7.2 no address of a
// file by name, and both read a pipe. fed is closed when all was written, or when QEMU, the only
// reader, has ended.
func (r *restoration) state() (state *os.File, fed chan struct{}, err error) {
	var from io.Reader = bytes.NewReader(r.devices)
	if r.dir == "" {
		from = io.NewSectionReader(r.template.devices, 0, math.MaxInt64)
	}
	state, ours, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	fed = make(chan struct{})
	go func() {
		defer close(fed)
		defer ours.Close()
		io.Copy(ours, from) // what is cut short QEMU complains about
	}()
	return state, fed, nil
}

// load fills disks and memory, loads the device state and waits until the CPUs run. Memory goes
// first, since it holds parts of devices' state (virtio's rings), which QEMU reads while it loads
// them.
func (r *restoration) load(ctx context.Context, m *machine, fill func(context.Context) error) error {
	filled := make(chan error, 1)
	go func() { filled <- fill(ctx) }()
	err := m.qmp.negotiate(ctx)
	if err == nil && r.memory != nil {
		err = r.inject(ctx, m)
	}
	if err := errors.Join(err, <-filled); err != nil {
		return err
	}
	from := map[string]any{"uri": fmt.Sprintf("fd:%d", fdState)}
	r.released = true // QEMU lets the CPUs run by itself when it has the state
	if err := m.qmp.run(ctx, quickCommand, "migrate-incoming", from); err != nil {
		return err
	}
	return m.awaitRunning(ctx)
}

// inject writes the saved pages into the machine's private mapping of the template's memory. The
// writes make private copies, as the guest's own did, so the next save finds them again and
// differences do not stack.
func (r *restoration) inject(ctx context.Context, m *machine) error {
	memory, err := openProcessMemory(m.proc.PID, r.man.Memory)
	if err != nil {
		return err
	}
	return loadPages(ctx, r.dir, memoryFile, r.memory, memory)
}

// awaitRunning waits until the CPUs run. QEMU reports a failed migration by ending.
func (m *machine) awaitRunning(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, slowCommand)
	defer cancel()
	select {
	case <-m.resumed:
		return nil
	case <-m.qmp.closed:
		return errMonitorClosed
	case <-ctx.Done():
		return fmt.Errorf("the device state was not loaded in time: %w", ctx.Err())
	}
}

// disks creates the disk files at full size and returns what fills and closes them, to be called at
// most once. There are three cases: a template, whose runtime layer is in memory and which has no
// workspace; a state without disks, whose disks must still be in place; a state with disks, which
// are copied.
func (r *restoration) disks() (func(context.Context) error, error) {
	runtime := filepath.Join(r.spec.Dir, runtimeFile)
	switch {
	case r.dir == "":
		f, err := r.create(runtime, r.man.Disk)
		return func(ctx context.Context) error {
			return errors.Join(copySparse(ctx, f, r.template.runtime), f.Close())
		}, err
	case r.man.Disks == nil:
		return func(context.Context) error { return nil }, r.checkDisk(runtime)
	}
	fillRuntime, err := r.copied(runtime, savedRuntimeFile, r.man.Disks.Runtime)
	if err != nil || r.man.Disks.Workspace == 0 {
		return fillRuntime, err
	}
	if _, err := os.Lstat(r.spec.Workspace); !errors.Is(err, os.ErrNotExist) {
		if err == nil {
			err = agentbox.Errorf(agentbox.Exists, "%s exists already", r.spec.Workspace)
		}
		return nil, err
	}
	fillWorkspace, err := r.copied(r.spec.Workspace, savedSpaceFile, r.man.Disks.Workspace)
	return func(ctx context.Context) error {
		return errors.Join(fillRuntime(ctx), fillWorkspace(ctx))
	}, err
}

func (r *restoration) create(path string, size int64) (*os.File, error) {
	f, err := freshDisk(path, size)
	if err == nil {
		r.made = append(r.made, path)
	}
	return f, err
}

// copied creates path with the size of the saved disk called name, and returns what copies its
// bytes. A saved disk of another size is Corrupt.
func (r *restoration) copied(path, name string, size int64) (func(context.Context) error, error) {
	src, err := statedir.Open(r.dir, name, size)
	if err != nil {
		return nil, err
	}
	dst, err := r.create(path, size)
	if err != nil {
		src.Close()
		return nil, err
	}
	return func(ctx context.Context) error {
		defer src.Close()
		return errors.Join(copySparse(ctx, dst, src), dst.Close())
	}, nil
}

// checkDisk requires the disk of a state without disks. Its bytes have no digest; a changed disk
// shows as a damaged file system.
func (r *restoration) checkDisk(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return agentbox.Errorf(agentbox.Corrupt, "the runtime layer of the saved machine is gone: %w", err)
	}
	if info.Size() != r.man.Disk {
		return agentbox.Errorf(agentbox.Corrupt, "%s has %d bytes instead of %d", path, info.Size(), r.man.Disk)
	}
	return nil
}

// undo removes the files that were made.
func (r *restoration) undo() error {
	var errs []error
	for _, path := range r.made {
		errs = append(errs, os.Remove(path))
	}
	return errors.Join(errs...)
}
