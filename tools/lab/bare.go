package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"agentbox/agentbox"
	"agentbox/bench"
	"agentbox/vmm/guest"
	"agentbox/vmm/gvisor/runsc"
)

// bareTarget runs jobs in a container of the embedded runsc and nothing else: no agentbox and no
// guest agent, but the image and the working copy that a box would have. Both sides pay for gVisor
// itself, so the difference is what a box adds.
type bareTarget struct {
	// runsc is the path of the program.
	runsc string
	// dir holds the bundle and everything else of the container. Each of its processes has this
	// path in its command line, by which processesOf finds them.
	dir string
	// clone is the workspace. It is required, because runsc cannot start from an image file without
	// one.
	clone string
	image string
	netns string // the file of the network namespace whose interfaces it takes over; "" for no network
	// env is the environment of its commands, as NAME=value.
	env     []string
	try     option
	counted bool           // measured by processor time
	user    *userNamespace // where runsc is root, while it runs; nil when we are root
}

// bareID is the name of the container, in a state directory of its own.
const bareID = "bare"

// bareContainers returns one container for each configuration, all with the image and environment
// of a box (a locale alone makes scripts slower). The first is configured as boxes are; each of the
// others has one of the options.
func bareContainers(ctx context.Context, w *bench.Work, of bench.WorkBox, try []string) (all []*bareTarget, err error) {
	env, err := of.Installation.Environment(ctx, of.Name)
	if err != nil {
		return nil, err
	}
	for i, text := range append([]string{""}, try...) {
		o, err := parseOption(text)
		if err != nil {
			return nil, err
		}
		name := bareID
		if i > 0 {
			name += strconv.Itoa(i)
		}
		clone, err := w.Clone(ctx, name)
		if err != nil {
			return nil, err
		}
		s, err := newBareTarget(of.Installation.Lab, name, of.Image, clone, "", env, o)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// newBareTarget describes a container called name with an image of the user's, in a bundle of its own,
// without starting it. The runsc is the one that agentbox embeds, so that both sides run the same.
func newBareTarget(l *bench.Lab, name string, image agentbox.Digest, clone, netns string, env []string, try option) (*bareTarget, error) {
	programs, err := runsc.New(filepath.Join(l.Dir, "programs"), runsc.Agent{Digest: guest.AgentDigest, Bytes: guest.Agent}).Ensure()
	if err != nil {
		return nil, err
	}
	s := &bareTarget{
		runsc: programs.Runsc, dir: filepath.Join(l.Dir, name), clone: clone, netns: netns, env: env, try: try,
		image: filepath.Join(l.User.Images(), "images", image.Hex(), "image.erofs"),
	}
	for _, name := range []string{"root", "overlay", "state"} {
		if err := os.MkdirAll(filepath.Join(s.dir, name), 0o755); err != nil {
			return s, err
		}
	}
	b, err := json.Marshal(s.spec())
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, "config.json"), b, 0o644)
	}
	return s, err
}

// spec puts /tmp in the image's overlay, as boxes and Docker's containers have it.
func (s *bareTarget) spec() *specs.Spec {
	spec := &specs.Spec{
		Version: "1.0.2", Hostname: bareID,
		Root: &specs.Root{Path: filepath.Join(s.dir, "root")},
		Process: &specs.Process{
			// It only keeps the container up: jobs come by exec.
			Args: []string{"/bin/sleep", "1000000"}, Cwd: "/", Env: s.env,
		},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/sys", Type: "sysfs", Source: "sysfs"},
			// A bind mount and not the root, because the workspace of a box in gVisor is also a
			// directory of the host.
			{Destination: bareWork, Type: "bind", Source: s.clone, Options: []string{"rw", "bind"}},
		},
		Linux: &specs.Linux{Namespaces: []specs.LinuxNamespace{
			{Type: specs.PIDNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace}, {Type: specs.MountNamespace}, {Type: specs.NetworkNamespace, Path: s.netns},
		}},
		Annotations: map[string]string{
			"dev.gvisor.spec.rootfs.type": "erofs", "dev.gvisor.spec.rootfs.source": s.image,
			"dev.gvisor.spec.rootfs.overlay": "dir=" + filepath.Join(s.dir, "overlay"),
		},
	}
	s.try.describe(spec)
	return spec
}

// bareWork is the path of the working copy in the container, the same as in a box.
const bareWork = "/workspace"

// command returns a call of runsc with those flags of boxes that affect speed.
func (s *bareTarget) command(ctx context.Context, args ...string) *exec.Cmd {
	// Jobs need no network.
	network := "none"
	if s.netns != "" {
		network = "sandbox"
	}
	flags := []string{
		"--root=" + filepath.Join(s.dir, "state"), "--platform=systrap", "--network=" + network, "--gofer-network-namespace=new", "--ignore-cgroups",
		"--overlay2=root:dir=" + filepath.Join(s.dir, "overlay"), "--file-access-mounts=exclusive",
		"--sidecar-usage-policy=LEGACY_DEPRECATED_SLOW_EMBEDDED_FALLBACK",
	}
	argv := slices.Concat([]string{s.runsc}, flags, s.try.flags, args)
	if s.user != nil {
		argv = s.user.enter(argv)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.WaitDelay = s.dir, bench.KillAfter
	return cmd
}

// scenario returns the scenario of a job in the container. The container lives as long as the
// scenario.
func (s *bareTarget) scenario(j bench.Job) bench.Scenario {
	out := j.Scenario("runsc"+s.try.label+"/"+j.Name, s)
	out.Baseline = "native/" + j.Name
	if s.try.label != "" {
		out.Baseline = "runsc/" + j.Name
	}
	// The container has to run before the job's setup runs the job once.
	first := out.Setup
	out.Setup = func(ctx context.Context) error {
		if err := s.start(ctx); err != nil {
			return err
		}
		return first(ctx)
	}
	out.Teardown = s.stop
	return out
}

// start runs the container. runsc hands its own output to the sandbox, so a file stands in for it.
func (s *bareTarget) start(ctx context.Context) (err error) {
	// agentbox has a launcher for this, but a bare runsc must not benefit from it.
	if os.Geteuid() != 0 {
		if s.user, err = makeUserNamespace(ctx); err != nil {
			return err
		}
	}
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := s.command(ctx, "run", "--detach", "--bundle="+s.dir, bareID)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		b, _ := os.ReadFile(log.Name())
		return fmt.Errorf("start a bare runsc: %w: %s", err, bytes.TrimSpace(b))
	}
	return nil
}

// stop deletes the container, running or not.
func (s *bareTarget) stop(ctx context.Context) error {
	err := s.command(ctx, "delete", "--force", bareID).Run()
	if s.user != nil {
		err = errors.Join(err, s.user.close())
		s.user = nil
	}
	return err
}

// Run runs a script in the container. It returns the milliseconds of the whole command, or of the
// processor time that the container used meanwhile.
func (s *bareTarget) Run(ctx context.Context, script string) (float64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, bench.WorkLimit, fmt.Errorf("the limit is %s", bench.WorkLimit))
	defer cancel()
	cmd := s.command(ctx, "exec", "--cwd="+bareWork, bareID, "sh", "-c", script)
	before, errBefore := s.processorTime()
	start := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(start)
	if s.counted {
		after, errAfter := s.processorTime()
		took, err = after-before, errors.Join(err, errBefore, errAfter)
	}
	if err != nil {
		return bench.InMilliseconds(took), fmt.Errorf("%s in a bare runsc: %w: %s", script, err, bench.LastLine(out))
	}
	return bench.InMilliseconds(took), nil
}

// processorTime returns the processor time that the container's processes have used, or 0 when wall
// time is measured.
func (s *bareTarget) processorTime() (time.Duration, error) {
	if !s.counted {
		return 0, nil
	}
	return processorTimeOf(s.dir + "/")
}
