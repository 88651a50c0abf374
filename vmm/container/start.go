package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"agentbox/agentbox"
	"agentbox/vmm"
	"agentbox/vmm/cable"
	"agentbox/vmm/child"
	"agentbox/vmm/console"
	"agentbox/vmm/container/plan"
	"agentbox/vmm/gpu"
	"agentbox/vmm/statedir"
	"agentbox/vmm/userns"
)

// Boot implements vmm.Driver. The guest agent has been started when it returns; ctx bounds the start
// only.
func (d *Driver) Boot(ctx context.Context, spec vmm.Spec) (vmm.Machine, error) {
	if err := errors.Join(ctx.Err(), spec.Check(spec.Dir)); err != nil {
		return nil, err
	}
	t, err := d.try(ctx, false)
	if err != nil {
		return nil, err
	}
	s := &start{Driver: d, spec: spec, rings: t.rings}
	m, err := s.run(ctx)
	if err != nil {
		return nil, statedir.HostError(err)
	}
	return m, nil
}

// start is one start of a machine. It describes what the machine gets, and then makes it.
type start struct {
	*Driver
	spec  vmm.Spec
	rings bool        // the box may use io_uring
	trial bool        // of Probe: the image is an empty directory
	ids   userns.Maps // of the box
	plan  plan.Plan
	files []*os.File // detached mounts for the plan, in its order; none unless we are root
}

func (s *start) run(ctx context.Context) (m *machine, err error) {
	if s.ids, err = userns.ApartIDs(); err != nil {
		return nil, err
	}
	if err := s.describe(ctx); err != nil {
		return nil, err
	}
	m = &machine{driver: s.Driver, spec: s.spec, End: child.NewEnd(), stopped: map[int]bool{}}
	if m.group, err = newGroup(s.spec); err != nil {
		m.group = nil // Probe says what that means
	}
	s.plan.Cgroup = m.group != nil
	if m.group == nil || !m.group.memory {
		s.plan.Watch = s.spec.Memory
	}
	defer func() { statedir.Close(s.files...) }()
	if err := m.launch(agentFile(s.plan.Agent)); err != nil {
		return nil, errors.Join(err, m.removeGroup())
	}
	stop := context.AfterFunc(ctx, func() { m.proc.Terminate() })
	err = s.ids.Apply(ctx, m.proc.PID)
	if err == nil {
		err = s.mounts(ctx, m.proc.PID)
	}
	if err == nil {
		err = m.await(s.plan, s.files)
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, m.abandon(ctx, err)
	}
	go m.watch()
	return m, nil
}

// describe makes the machine's directory anew, and the plan.
func (s *start) describe(ctx context.Context) error {
	agent, err := s.agentDirectory()
	if err != nil {
		return err
	}
	dir := filepath.Join(s.spec.Dir, machineDir)
	if err := s.remove(ctx, dir); err != nil {
		return err
	}
	for _, name := range []string{"", upperDir, workDir, emptyDir} {
		if err := errors.Join(os.Mkdir(filepath.Join(dir, name), 0o755), os.Chmod(filepath.Join(dir, name), 0o755)); err != nil {
			return err
		}
	}
	extra, err := extras(s.spec.GPUs)
	if err != nil {
		return err
	}
	filter, err := systemCalls(s.rings)
	if err != nil {
		return err
	}
	s.plan = plan.Plan{
		Agent: agent, Runtime: dir, Workspace: s.spec.Workspace, CPUs: s.spec.PickCPUs(), Shared: s.spec.Memory / 2, Filter: filter, Extra: extra,
		Given: os.Geteuid() == 0, Try: s.trial,
	}
	if s.plan.Workspace == "" {
		s.plan.Workspace = filepath.Join(dir, emptyDir)
	}
	if s.plan.Given {
		return nil
	}
	if s.plan.Image = s.spec.Image; !s.trial {
		s.plan.Image, err = s.unpacked(ctx, s.spec.Image)
	}
	return err
}

func extras(gpus int) (list []plan.Extra, err error) {
	if gpus == 0 {
		return nil, nil
	}
	needs, err := gpu.Find(gpu.Dirs, gpus)
	for _, d := range needs.Devices {
		list = append(list, plan.Extra{Source: d.Source, Target: d.Target, Device: true})
	}
	for _, f := range needs.Files {
		list = append(list, plan.Extra{Source: f.Source, Target: f.Target, Dir: f.Dir})
	}
	return list, err
}

// mounts makes the detached mounts that root's machines get. Root of the box owns the runtime layer on
// disk, and by mapped ids the image; the box's user owns the workspace.
func (s *start) mounts(ctx context.Context, pid int) error {
	if !s.plan.Given {
		return nil
	}
	for _, name := range []string{upperDir, workDir} {
		if err := os.Chown(filepath.Join(s.plan.Runtime, name), s.ids.UIDs[0].Outside, s.ids.GIDs[0].Outside); err != nil {
			return err
		}
	}
	mountRoot := mountImage
	if s.trial {
		mountRoot = tree
	}
	image, err := mountRoot(s.spec.Image)
	if err != nil {
		return err
	}
	s.files = append(s.files, image)
	for _, dir := range []string{s.plan.Agent, s.plan.Runtime, s.plan.Workspace} {
		t, err := tree(dir)
		if err != nil {
			return err
		}
		s.files = append(s.files, t)
	}
	box, err := openNamespace(pid)
	if err != nil {
		return err
	}
	defer box.Close()
	work, err := namespaceOf(ctx, agentFile(s.plan.Agent), workspaceIDs(s.ids))
	if err != nil {
		return err
	}
	defer work.Close()
	return errors.Join(mapIDs(image, box), mapIDs(s.files[3], work))
}

func agentFile(dir string) string { return filepath.Join(dir, agentName) }

// launch starts the launcher with its ends of the sockets and the console, and closes them here, so
// that we notice when it closes them.
func (m *machine) launch(program string) (err error) {
	var opened []io.Closer
	defer func() {
		for _, c := range opened {
			c.Close()
		}
	}()
	control, theirs, err := child.SocketPair("control")
	if err != nil {
		return err
	}
	opened = append(opened, theirs)
	stream, standard, err := child.SocketPair("stream")
	if err != nil {
		return errors.Join(err, control.Close())
	}
	opened = append(opened, standard)
	said, saying, err := os.Pipe()
	if err != nil {
		return errors.Join(err, control.Close(), stream.Close())
	}
	opened = append(opened, saying)
	m.proc, err = m.startLauncher(program, saying, []*os.File{theirs, standard})
	if err != nil {
		return errors.Join(err, control.Close(), stream.Close(), said.Close())
	}
	m.control, m.stream, m.console = control, stream, console.New(m.spec.Dir, said)
	return nil
}

func (m *machine) startLauncher(program string, stderr *os.File, files []*os.File) (*child.Process, error) {
	cmd := launcher(program)
	cmd.Stderr, cmd.ExtraFiles = stderr, files
	if m.group != nil {
		dir, err := m.group.open()
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	}
	p, err := child.Start(cmd, nil)
	if err != nil {
		return nil, userns.Explain(err)
	}
	return p, nil
}

func launcher(program string) *exec.Cmd {
	cmd := userns.Command(program)
	cmd.Args = append(cmd.Args, plan.Mode)
	cmd.SysProcAttr.AmbientCaps = append(cmd.SysProcAttr.AmbientCaps, unix.CAP_SYS_TIME, unix.CAP_SETFCAP, unix.CAP_FSETID)
	return cmd
}

// await sends the plan and waits until the guest agent runs.
func (m *machine) await(p plan.Plan, mounts []*os.File) error {
	var rights []byte
	if len(mounts) > 0 {
		fds := make([]int, 0, len(mounts))
		for _, f := range mounts {
			fds = append(fds, int(f.Fd()))
		}
		rights = unix.UnixRights(fds...)
	}
	line, err := json.Marshal(p)
	if err == nil {
		_, _, err = m.control.WriteMsgUnix(append(line, '\n'), rights, nil)
	}
	if err != nil {
		return fmt.Errorf("tell the launcher: %w", err)
	}
	for {
		e, fds, err := receive(m.control)
		switch {
		case errors.Is(err, io.EOF) && m.link != nil:
			return nil // it has become the agent
		case err != nil:
			return err
		case e.Failed != "":
			return errors.New(e.Failed)
		case e.Started && len(fds) == 1 && m.link == nil:
			if m.link, err = cable.New(fds[0], plan.MTU); err != nil {
				return err
			}
		default:
			return errors.New("the launcher's answer is not to be understood")
		}
	}
}

// receive reads one event with its descriptors. Each is one message.
func receive(control *net.UnixConn) (e plan.Event, fds []int, err error) {
	buf, oob := make([]byte, 4<<10), make([]byte, unix.CmsgSpace(4))
	n, rn, _, _, err := control.ReadMsgUnix(buf, oob)
	if n == 0 && (err == nil || errors.Is(err, syscall.ECONNRESET)) {
		err = io.EOF
	}
	if err != nil {
		return e, nil, err
	}
	messages, _ := unix.ParseSocketControlMessage(oob[:rn])
	for i := range messages {
		rights, _ := unix.ParseUnixRights(&messages[i])
		fds = append(fds, rights...)
	}
	return e, fds, json.Unmarshal(buf[:n], &e)
}

// abandon ends a machine that could not be started, and returns the most telling error.
func (m *machine) abandon(ctx context.Context, err error) error {
	m.proc.Kill()
	m.control.Close()
	m.stream.Close()
	m.console.Wait()
	if m.link != nil {
		m.link.Close()
	}
	groupErr := m.removeGroup()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var coded *agentbox.Error
	if !errors.As(err, &coded) {
		err = fmt.Errorf("start the container %s: %w%s", m.spec.Name, err, m.console.LastLine())
	}
	return errors.Join(err, groupErr)
}
