package gvisor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"agentbox/agentbox"
	"agentbox/vmm"
	"agentbox/vmm/child"
	"agentbox/vmm/console"
	"agentbox/vmm/gpu"
	"agentbox/vmm/gvisor/plan"
	"agentbox/vmm/gvisor/runsc"
	"agentbox/vmm/statedir"
	"agentbox/vmm/userns"
)

// Boot implements vmm.Driver. The sandbox runs when it returns; ctx bounds the start only.
func (d *Driver) Boot(ctx context.Context, spec vmm.Spec) (vmm.Machine, error) {
	m, p, err := d.prepare(ctx, spec)
	if err != nil {
		return nil, err
	}
	p.Argv = bootArgv()
	if err := d.start(ctx, m, p, nil); err != nil {
		return nil, err
	}
	return m, nil
}

// prepare checks a spec, and makes the files of its machine, below spec.Dir, and the launcher's
// plan without Argv. It starts no process.
func (d *Driver) prepare(ctx context.Context, spec vmm.Spec) (*machine, plan.Plan, error) {
	if err := spec.Check(spec.Dir); err != nil {
		return nil, plan.Plan{}, err
	}
	fingerprint, err := d.Fingerprint(ctx, spec)
	if err != nil {
		return nil, plan.Plan{}, err
	}
	programs, err := d.programs.Ensure()
	if err != nil {
		return nil, plan.Plan{}, err
	}
	gpus, err := gpusOf(spec)
	if err != nil {
		return nil, plan.Plan{}, err
	}
	if err := makeMachineDir(spec, gpus); err != nil {
		return nil, plan.Plan{}, statedir.HostError(err)
	}
	m := &machine{spec: spec, fingerprint: fingerprint, launcher: programs.Launch, log: d.config.Log, End: child.NewEnd()}
	return m, planOf(spec, programs, gpus), nil
}

// makeMachineDir makes the machine's files. It removes those of an earlier machine in spec.Dir,
// with its runtime layer.
func makeMachineDir(spec vmm.Spec, gpus gpu.Needs) error {
	dir := filepath.Join(spec.Dir, machineDir)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	for _, name := range []string{"", stateDir, overlayDir, rootfsDir, mountDir, emptyDir} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			return err
		}
	}
	// The guest sees this mode, and keeps it when it is saved and restored with a workspace.
	if err := os.Chmod(filepath.Join(dir, emptyDir), 0o755); err != nil {
		return err
	}
	b, err := json.Marshal(describe(spec.Memory, spec.Disk, gpus))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, specFile), b, 0o600)
}

// planOf makes the launcher's plan of a machine. Only the workspace and the machine's own
// directory, where runsc keeps its records and the runtime layer, are writable.
func planOf(spec vmm.Spec, programs runsc.Programs, gpus gpu.Needs) plan.Plan {
	dir := filepath.Join(spec.Dir, machineDir)
	workspace := spec.Workspace
	if workspace == "" {
		workspace = filepath.Join(dir, emptyDir)
	}
	p := plan.Plan{
		Root: filepath.Join(dir, mountDir),
		Binds: []plan.Bind{
			{Source: programs.Runsc, Target: inRunsc},
			{Source: programs.Agent, Target: inAgent},
			{Source: dir, Target: inMachine, Dir: true, Writable: true},
			{Source: workspace, Target: inWorkspace, Dir: true, Writable: true},
		},
		Env:  []string{"PATH=/bin"},
		Pid:  inMachine + "/" + pidFile,
		Dial: inMachine + "/" + stateDir + "/runsc-" + containerID + ".sock",
		CPUs: spec.PickCPUs(),
	}
	if spec.Blocks != nil {
		p.Image = inImage
	} else {
		p.Binds = append(p.Binds, plan.Bind{Source: spec.Image, Target: inImage})
	}
	for _, device := range []string{"/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"} {
		p.Binds = append(p.Binds, plan.Bind{Source: device, Target: device, Writable: true, Device: true})
	}
	p.Binds = append(p.Binds, gpuBinds(gpus)...)
	return p
}

// start starts the launcher, waits until the sandbox runs, and starts the machine's goroutine.
// files are the descriptors from plan.FDFirst on for the command that starts the sandbox. After an
// error nothing runs. If ctx ends during the start, the launcher is killed.
func (d *Driver) start(ctx context.Context, m *machine, p plan.Plan, files []*os.File) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	ids, err := userns.HostIDs()
	if err != nil {
		return err
	}
	p.Files = len(files)
	if err := m.launch(files); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { m.proc.Terminate() })
	err = ids.Apply(ctx, m.proc.PID)
	if err == nil {
		err = m.await(ctx, p)
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return m.abandon(ctx, err)
	}
	if m.noCard != "" {
		d.config.Log.Warn("the machine has no network card", "machine", m.spec.Name, "why", m.noCard)
	}
	go m.watch()
	return nil
}

// launch starts the launcher with its ends of the pipes and sockets, and closes them here, so that
// we notice when the launcher closes them.
func (m *machine) launch(files []*os.File) (err error) {
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
	}()
	toLauncher, control, err := child.SocketPair("control")
	if err != nil {
		return err
	}
	theirs = append(theirs, control)
	stream, input, output, err := newStream()
	if err != nil {
		return errors.Join(err, toLauncher.Close())
	}
	theirs = append(theirs, input, output)
	said, saying, err := os.Pipe()
	if err != nil {
		return errors.Join(err, toLauncher.Close(), stream.Close())
	}
	theirs = append(theirs, saying)
	m.proc, err = userns.Start(m.launcher, saying, slices.Concat(theirs, files))
	if err != nil {
		return errors.Join(userns.Explain(err), toLauncher.Close(), stream.Close(), said.Close())
	}
	m.toLauncher, m.stream, m.console = toLauncher, stream, console.New(m.spec.Dir, said)
	return nil
}

// await sends the plan and waits until the sandbox runs. With Plan.Image there is an event before
// that, since the image has to be served before the sandbox reads it. Errors are those of the
// launcher, or say that it has ended.
func (m *machine) await(ctx context.Context, p plan.Plan) error {
	line, err := json.Marshal(p)
	if err != nil {
		return err
	}
	m.released = true // the launcher starts the sandbox by itself
	if _, err := m.toLauncher.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("tell the launcher: %w", err)
	}
	e, fds, rest, err := m.receive()
	if err == nil && e.Image {
		if err = m.serveImage(ctx, fds); err == nil {
			e, fds, rest, err = m.receive()
		}
	}
	if err != nil {
		return err
	}
	if !e.Started {
		m.released = false
		return errors.New(e.Failed)
	}
	conn, link, err := takeDescriptors(fds, e.NoCard == "")
	if err != nil {
		return err
	}
	m.link, m.noCard = link, e.NoCard
	m.control = newControl(conn)
	m.events = json.NewDecoder(io.MultiReader(bytes.NewReader(rest), m.toLauncher))
	return nil
}

// receive reads one event with its descriptors. rest is what was read after the event, for a later
// reader. A read never goes beyond a message with descriptors, so an event with descriptors is the
// last in what is read.
func (m *machine) receive() (e plan.Event, fds []int, rest []byte, err error) {
	buf, oob := make([]byte, 4<<10), make([]byte, unix.CmsgSpace(2*4))
	n, rn, _, _, err := m.toLauncher.ReadMsgUnix(buf, oob)
	if err != nil || n == 0 {
		return e, nil, nil, errors.New("the launcher ended")
	}
	first, rest, found := bytes.Cut(buf[:n], []byte("\n"))
	if !found {
		return e, nil, nil, errors.New("the launcher sent an incomplete line")
	}
	if err := json.Unmarshal(first, &e); err != nil {
		return e, nil, nil, fmt.Errorf("the launcher's answer: %w", err)
	}
	return e, descriptors(oob[:rn]), rest, nil
}

// abandon ends a machine that could not be started, and returns the most telling error: what runsc
// wrote into its log, an error with a code (no ids, no namespaces), or err with the last words of
// the console.
func (m *machine) abandon(ctx context.Context, err error) error {
	m.end()
	m.toLauncher.Close()
	m.stream.Close()
	m.console.Wait()
	if m.control != nil {
		m.control.close()
	}
	if m.link != nil {
		m.link.Close()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if said := lastError(filepath.Join(m.spec.Dir, machineDir, logFile)); said != "" {
		return agentbox.Errorf(agentbox.Unavailable, "start %s: %s", m.spec.Name, said)
	}
	var coded *agentbox.Error
	if errors.As(err, &coded) {
		return err
	}
	return agentbox.Errorf(agentbox.Unavailable, "start %s: %w%s", m.spec.Name, err, m.console.LastLine())
}

// lastError returns the last line of runsc's log, which holds nothing but errors, for people; "" if
// there is none. The sandbox can write to the log's directory, so a link or a pipe is not followed.
func lastError(path string) string {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	last := ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text := strings.TrimSpace(lines.Text()); text != "" {
			last = text
		}
	}
	return last
}
