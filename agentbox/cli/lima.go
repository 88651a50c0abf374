package cli

import (
	"context"
	"os"
	"os/exec"
	"runtime"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/lima"
	"agentbox/agentbox/programs"
)

func (a *app) limaCommand() *cli.Command {
	var d lima.Description
	create := []cli.Flag{
		&cli.IntFlag{Name: "cpus", Usage: "give the machine `N` CPUs (default: up to 4)", Destination: &d.CPUs},
		&cli.StringFlag{Name: "memory", Usage: "give the machine `SIZE` of memory (default: half of this host's, up to 4GiB)", Destination: &d.Memory},
		&cli.StringFlag{Name: "disk", Usage: "give the machine a disk of at most `SIZE` (default: 100GiB)", Destination: &d.Disk},
		&cli.StringFlag{Name: "image", Usage: "make the machine from this disk, a `FILE` or URL with cloud-init (default: Debian 12)", Destination: &d.Image},
		&cli.StringFlag{Name: "kernel", Usage: "boot this `FILE` directly, for a disk without a boot loader", Destination: &d.Kernel},
		&cli.StringFlag{Name: "initrd", Usage: "boot with this initial RAM disk, a `FILE`", Destination: &d.Initrd},
	}
	return &cli.Command{
		Name: "lima", Category: catHost, Usage: "a virtual machine of this host by Lima, for boxes that this host cannot run or should be apart from",
		Description: "Each home has one machine. It sees no file of this host. Boxes in it are what they are on any Linux machine.",
		Commands: []*cli.Command{
			{Name: "create", Usage: "make the machine; the first start does it with the defaults", Flags: create, Action: func(ctx context.Context, _ *cli.Command) error {
				return a.aboutLima(ctx, func(vm lima.VM) (lima.Instance, error) { return a.createLima(ctx, vm, d) })
			}},
			{Name: "start", Usage: "start the machine, make it if there is none, and bring this program into it", Action: func(ctx context.Context, _ *cli.Command) error {
				return a.aboutLima(ctx, func(vm lima.VM) (lima.Instance, error) { return a.startLima(ctx, vm) })
			}},
			{Name: "show", Usage: "show the machine", Action: func(ctx context.Context, _ *cli.Command) error {
				return a.aboutLima(ctx, func(vm lima.VM) (lima.Instance, error) { return vm.Inspect(ctx) })
			}},
			{Name: "shell", Usage: "run a command in the machine, outside of its boxes, or a shell", ArgsUsage: "[-- CMD...]", Action: a.limaShell},
			{Name: "stop", Usage: "shut the machine down; its boxes stop", Action: func(ctx context.Context, _ *cli.Command) error {
				return a.aboutLima(ctx, func(vm lima.VM) (lima.Instance, error) { return vm.Stop(ctx) })
			}},
			{Name: "rm", Usage: "remove the machine with its boxes and all that is in them", Action: func(ctx context.Context, _ *cli.Command) error {
				vm, end, err := a.limaVM()
				if err != nil {
					return err
				}
				defer end()
				if err := vm.Delete(ctx); err != nil {
					return err
				}
				return a.report(facts{value: struct{}{}, text: "the Lima machine was removed"})
			}},
		},
	}
}

// limaVM is the machine of this home; end ends its progress.
func (a *app) limaVM() (vm lima.VM, end func(), err error) {
	machine, unpacked := a.here.LimaDirs()
	program, err := programs.Lima(unpacked)
	p := a.newProgress()
	return lima.VM{Program: program, Home: machine, Name: lima.Name, Progress: p.event, Emulated: a.emulates}, p.close, err
}

// emulates asks the daemon, which has booted a guest to find out. Without an answer Lima's QEMU tries.
func (a *app) emulates(ctx context.Context) bool {
	if a.host != "" {
		return false
	}
	report, err := call(ctx, a, api.Doctor, api.DoctorRequest{})
	return err == nil && report.Emulated
}

func (a *app) aboutLima(_ context.Context, act func(lima.VM) (lima.Instance, error)) error {
	vm, end, err := a.limaVM()
	if err != nil {
		return err
	}
	inst, err := act(vm)
	end()
	if err != nil {
		return err
	}
	f := facts{value: inst, table: [][]string{
		{"machine", inst.Name + " (" + inst.Driver + ", Lima " + inst.Lima + ")"}, {"state", inst.Status},
		{"size", agentbox.Plural(inst.CPUs, "CPU") + ", " + bytesText(inst.Memory) + " of memory, a disk of " + bytesText(inst.Disk)},
		{"ssh", "ssh -F " + inst.SSHConfig + " " + inst.Host}, {"directory", inst.Directory},
	}}
	for _, text := range inst.Errors {
		f.table = append(f.table, []string{"problem", text})
	}
	return a.report(f)
}

func (a *app) createLima(ctx context.Context, vm lima.VM, d lima.Description) (lima.Instance, error) {
	d.OS, d.Arch = runtime.GOOS, runtime.GOARCH
	return vm.Create(ctx, d)
}

// startLima makes the machine unless there is one, starts it, and brings this build into it.
func (a *app) startLima(ctx context.Context, vm lima.VM) (lima.Instance, error) {
	if _, err := vm.Inspect(ctx); agentbox.CodeOf(err) == agentbox.NotFound {
		if _, err := a.createLima(ctx, vm, lima.Description{}); err != nil {
			return lima.Instance{}, err
		}
	} else if err != nil {
		return lima.Instance{}, err
	}
	inst, err := vm.Start(ctx)
	if err != nil {
		return inst, err
	}
	binary, err := linuxBinary()
	if err == nil {
		_, err = inst.Bring(ctx, binary)
	}
	return inst, err
}

// linuxBinary is this build of the program for Linux: the program itself there, and elsewhere the
// file that a release has beside it.
func linuxBinary() (string, error) {
	self, err := os.Executable()
	if err != nil || runtime.GOOS == "linux" {
		return self, err
	}
	beside := self + "-linux-" + runtime.GOARCH
	if _, err := os.Stat(beside); err != nil {
		return "", agentbox.Errorf(agentbox.Missing, "the program for Linux is not there: %w", err).WithHint("a release has it beside this one; make release-linux builds it")
	}
	return beside, nil
}

func (a *app) limaShell(ctx context.Context, _ *cli.Command) error {
	vm, end, err := a.limaVM()
	if err != nil {
		return err
	}
	inst, err := vm.Inspect(ctx)
	if err == nil && inst.Status != lima.Running {
		inst, err = vm.Start(ctx)
	}
	end()
	if err != nil {
		return err
	}
	argv := a.command
	if argv == nil {
		argv = []string{"bash", "-l"}
	}
	cmd := inst.Command(ctx, argv...)
	if a.interactive() && a.command == nil {
		cmd.Args = append(cmd.Args[:1], append([]string{"-t"}, cmd.Args[1:]...)...)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.stdin, a.stdout, a.stderr
	err = cmd.Run()
	if status, ok := err.(*exec.ExitError); ok {
		return exit(status.ExitCode())
	}
	return err
}
