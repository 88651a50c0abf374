package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"

	"agentbox/vmm"
	"agentbox/vmm/child"
	"agentbox/vmm/console"
	"agentbox/vmm/guest/protocol"
	"agentbox/vmm/memfile"
)

// Boot implements vmm.Driver. The guest's memory is shared with a memory file, so that the machine
// can become a template.
func (d *Driver) Boot(ctx context.Context, spec vmm.Spec) (vmm.Machine, error) {
	m, err := d.boot(ctx, spec)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// boot starts a machine from its kernel, with an empty file system as its runtime layer.
func (d *Driver) boot(ctx context.Context, spec vmm.Spec) (*machine, error) {
	m, cmd, err := d.prepare(ctx, spec)
	if err != nil {
		return nil, err
	}
	if m.memory, err = memfile.New(memoryName, spec.Memory); err != nil {
		return nil, err
	}
	started := false
	defer func() {
		if !started {
			m.memory.Close()
		}
	}()
	disk, err := freshDisk(m.runtime, spec.Disk)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(disk.Close(), filesystem{path: m.runtime}.make(ctx)); err != nil {
		return nil, err
	}
	cmd.Share = true
	cmd.Args += tscArgs(cmd.Accel)
	if err := d.start(m, cmd, m.memory); err != nil {
		return nil, err
	}
	started = true // from here on watch closes the memory
	if err := m.qmp.negotiate(ctx); err != nil {
		return nil, m.abandon(err)
	}
	return m, nil
}

// prepare checks a spec and describes its machine, but for the memory and the content of its
// runtime layer. No process and no socket exists yet.
func (d *Driver) prepare(ctx context.Context, spec vmm.Spec) (*machine, command, error) {
	if err := spec.Check(filepath.Join(spec.Kernel, kernelFile), filepath.Join(spec.Kernel, initrdFile)); err != nil {
		return nil, command{}, err
	}
	fingerprint, err := d.Fingerprint(ctx, spec)
	if err != nil {
		return nil, command{}, err
	}
	facts, err := d.Probe(ctx, false)
	if err != nil {
		return nil, command{}, err
	}
	m := &machine{
		spec: spec, fingerprint: fingerprint, workspace: spec.Workspace,
		runtime: filepath.Join(spec.Dir, runtimeFile),
		resumed: make(chan struct{}, 1), End: child.NewEnd(),
	}
	if m.workspace == "" {
		if m.workspace, err = placeholder(spec); err != nil {
			return nil, command{}, err
		}
	}
	return m, describe(m, facts.Accel), nil
}

// describe is the command of a machine that boots; Restore changes it for a clone. The order of
// disks is the order of devices in a saved state. Fingerprint calls it for a machine without paths,
// so everything that is no path belongs here.
func describe(m *machine, accel string) command {
	return command{
		Name: m.spec.Name, Accel: accel, CPUs: m.spec.CPUs, Memory: m.spec.Memory,
		Kernel: filepath.Join(m.spec.Kernel, kernelFile), Initrd: filepath.Join(m.spec.Kernel, initrdFile), Args: kernelArgs(accel),
		Disks: []disk{
			{Name: protocol.SlotImage, Path: m.spec.Image, ReadOnly: true, Served: m.spec.Blocks != nil},
			{Name: protocol.SlotRuntime, Path: m.runtime, Volatile: true},
			{Name: protocol.SlotWorkspace, Path: m.workspace},
		},
		Network: true,
	}
}

// placeholder makes the empty workspace slot of a machine without a workspace. Nothing is ever
// written to it, so an earlier machine's is reused.
func placeholder(spec vmm.Spec) (string, error) {
	path := filepath.Join(spec.Dir, placeholderFile)
	if info, err := os.Stat(path); err == nil && info.Size() == spec.Disk {
		return path, nil
	}
	f, err := freshDisk(path, spec.Disk)
	if err != nil {
		return "", err
	}
	return path, f.Close()
}

// freshDisk makes a disk that is one hole, in place of any that an earlier machine left at path.
func freshDisk(path string, size int64) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return createSized(path, size)
}

// start runs QEMU with its sockets and files, and the goroutines of the machine. After an error
// nothing runs. files are those from fdMemory on, and stay the caller's. QEMU's ends of the socket
// pairs are closed here, so that the end of QEMU closes the sockets.
func (d *Driver) start(m *machine, cmd command, files ...*os.File) error {
	program, err := d.binary()
	if err != nil {
		return err
	}
	ours, theirs, err := socketPairs("qmp", "agent", "console", "network", "image") // in the order of the fd constants
	if err != nil {
		return err
	}
	defer closeAll(theirs)
	argv, reach := cmd.argv(), cmd.files(program)
	confined := &reach
	if d.config.ModifyArgv != nil {
		argv, confined = d.config.ModifyArgv(argv), nil
	}
	if m.spec.Blocks == nil {
		closeAll(ours[4:])
		closeAll(theirs[4:])
		theirs[4] = nil
	}
	m.proc, err = startProcess(program, argv, slices.Concat(theirs, files), confined)
	if err != nil {
		closeAll(ours)
		return fmt.Errorf("start QEMU of %s: %w", m.spec.Name, err)
	}
	m.qmp = newMonitor(ours[0], m.event)
	m.stream = ours[1]
	m.console = console.New(m.spec.Dir, ours[2])
	m.link = newLink(ours[3])
	if m.spec.Blocks != nil {
		m.serveImage(ours[4], d.config.Log)
	}
	go m.watch()
	return nil
}

// socketPairs makes a pair for each name: our ends, and QEMU's. After an error none is open.
func socketPairs(names ...string) (ours []*net.UnixConn, theirs []*os.File, err error) {
	for _, name := range names {
		conn, file, err := child.SocketPair(name)
		if err != nil {
			closeAll(ours)
			closeAll(theirs)
			return nil, nil, err
		}
		ours, theirs = append(ours, conn), append(theirs, file)
	}
	return ours, theirs, nil
}

func closeAll[T io.Closer](all []T) {
	for _, c := range all {
		c.Close()
	}
}
