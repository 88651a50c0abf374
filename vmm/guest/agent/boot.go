//go:build linux

package agent

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agentbox/vmm/guest/netconfig"
	"agentbox/vmm/guest/protocol"
)

// The agent is resident in every box, so it would rather collect often than grow.
const (
	// memoryLimit is in bytes. It is a target of Go's collector, not a bound.
	gcPercent   = 50
	memoryLimit = 48 << 20
)

// Main is PID 1 of a virtual machine. It never returns: a machine that cannot boot says why on its
// console and is switched off.
func Main() {
	if err := raiseFileLimit(); err != nil {
		fmt.Fprintf(os.Stderr, "agentbox: programs can open few files only: %v\n", err)
	}
	fmt.Fprintln(os.Stderr, protocol.Started)
	run((*booter).run, (*booter).machine, openPort)
	powerOff()
}

// run is what PID 1 does: it boots, serves, and shuts down in order when somebody in the box asks
// by SIGTERM, SIGINT or SIGPWR. It returns false if the machine did not boot, and has said why on
// the console.
func run(bootUp func(*booter) error, machine func(*booter) Machine, open func(context.Context) (io.ReadWriteCloser, error)) bool {
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(memoryLimit)
	syscall.Umask(0o022)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	boot := &booter{log: log, root: "/"}
	if err := bootUp(boot); err != nil {
		fmt.Fprintf(os.Stderr, "agentbox: boot failed: %v\n", err)
		return false
	}
	a := New(Config{Machine: machine(boot), User: boot.user, Log: log, PID1: true, Open: open})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGPWR)
	defer stop()
	a.Serve(ctx)
	if err := a.detach(); err != nil {
		log.Error("shutdown", "err", err)
	}
	return true
}

// raiseFileLimit starts the agent anew with the box's limits, because Go gives programs the limits
// that it was started with itself. It returns without doing so where they are right already.
func raiseFileLimit() error {
	var have syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &have); err != nil || have.Max >= protocol.MaxFiles {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: protocol.DefaultFiles, Max: protocol.MaxFiles}); err != nil {
		return err
	}
	return syscall.Exec(os.Args[0], os.Args, os.Environ())
}

// powerOff ends the machine and does not return. A machine that cannot be switched off restarts,
// which QEMU takes for its end, too.
func powerOff() {
	syscall.Sync()
	for {
		syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
		syscall.Reboot(syscall.LINUX_REBOOT_CMD_RESTART)
		time.Sleep(time.Second)
	}
}

// booter brings up a machine. Its methods run one after the other, before there is an Agent;
// machine and gvisorMachine take over what it found.
type booter struct {
	log *slog.Logger
	// The root of the box's file system; / outside of tests.
	root string
	user User

	workspace   string // the device of its slot, "" without one
	random      int    // the kernel's generator, which every life begins with
	authorities *authorities
}

// run takes a virtual machine from the initramfs to the point where it can be greeted. A step that
// fails ends the boot.
func (b *booter) run() error {
	return runSteps([]step{
		{"do without signals of children", ignoreSIGCHLD},
		{"mount the kernel's file systems", mountKernel},
		{"load modules", loadModules},
		{"mount the root file system", mountRoot},
		{"find the workspace's disk", b.findWorkspace},
		{"switch to the root file system", switchRoot},
		{"mount temporary file systems", mountTemporary},
		{"cover the boot id", mountBootID},
		{"set up cgroups", setUpCgroups},
		{"tune the kernel", tune},
		{"bring up the loopback interface", func() error { return netconfig.LinkUp("lo") }},
		{"set up the network", b.setUpNetwork},
		{"find the box's user", b.findUser},
		{"open the random number generator", b.openRandom},
		{"prepare the certificates", b.findAuthorities},
		{"prepare for files of the host", func() error { return prepareFiles(b.root) }},
	})
}

type step struct {
	what string
	do   func() error
}

// runSteps runs steps in order and stops at the first that fails; the error names the step.
func runSteps(steps []step) error {
	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return nil
}

func (b *booter) findAuthorities() (err error) {
	b.authorities, err = findAuthorities(b.root)
	return err
}

func (b *booter) openRandom() (err error) {
	b.random, err = unix.Open("/dev/urandom", unix.O_RDWR|unix.O_CLOEXEC, 0)
	return err
}

// findWorkspace remembers the device, so that no clone has to look for it. A machine may have none.
func (b *booter) findWorkspace() error {
	device, err := slot(protocol.SlotWorkspace)
	if err != nil {
		b.log.Warn("there is no disk for a workspace", "err", err)
		return nil
	}
	b.workspace = device
	return nil
}

// loadModules loads the modules of the initramfs in the order of its list. A module that is loaded
// already, or whose device is absent, is no error.
func loadModules() error {
	list, err := os.ReadFile("/modules/list")
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(list)) {
		f, err := os.Open(filepath.Join("/modules", name))
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		f.Close()
		if err != nil && err != syscall.EEXIST && err != syscall.ENODEV {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// tune writes kernel settings. Watches, maps and ports are as generous as on a developer's machine:
// the box is the boundary. Errors are dropped: gVisor has few of these files, and no box needs one
// to work.
func tune() error {
	for name, value := range map[string]string{
		"fs/inotify/max_user_watches":         "1048576",
		"fs/inotify/max_user_instances":       "8192",
		"vm/max_map_count":                    "262144",
		"kernel/printk":                       "3 4 1 3",
		"net/ipv4/ip_unprivileged_port_start": "0",
		"net/ipv4/ping_group_range":           "0 2147483647",
		// Everybody may debug what is theirs.
		"kernel/yama/ptrace_scope": "0",
		// Sessions share the CPU evenly with one another and with the agent, however many processes
		// each has.
		"kernel/sched_autogroup_enabled": "1",
		// Periodic work of the kernel wakes every idle box, and every clone would translate its
		// code. Memory is still compacted on demand, and statistics are kept, only less often.
		"vm/compaction_proactiveness": "0",
		"vm/stat_interval":            "60",
	} {
		os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0)
	}
	// Which memory a debugger writes into a core file (core(5)): what Linux begins with. gVisor
	// begins with none. Every process inherits it.
	os.WriteFile("/proc/self/coredump_filter", []byte("0x33"), 0)
	// Every clone would begin with a search for memory that could become huge pages, and copy what
	// it finds.
	os.WriteFile("/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs", []byte("3600000"), 0)
	return tuneDisks()
}

// tuneDisks switches off what the kernel does for slow disks: these are files of the host, which
// schedules their writes itself.
func tuneDisks() error {
	queues, err := filepath.Glob("/sys/block/vd*/queue")
	for _, queue := range queues {
		os.WriteFile(filepath.Join(queue, "scheduler"), []byte("none"), 0)
		os.WriteFile(filepath.Join(queue, "wbt_lat_usec"), []byte("0"), 0)
	}
	return err
}

// openPort opens the virtio-serial port to the host. It is found by its name in sysfs, since its
// number depends on the order of devices. It can be open once at a time.
func openPort(context.Context) (io.ReadWriteCloser, error) {
	names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
	if err != nil {
		return nil, err
	}
	for _, file := range names {
		name, err := os.ReadFile(file)
		if err == nil && strings.TrimSpace(string(name)) == protocol.PortName {
			return os.OpenFile(filepath.Join("/dev", filepath.Base(filepath.Dir(file))), os.O_RDWR, 0)
		}
	}
	return nil, fmt.Errorf("there is no virtio-serial port %s", protocol.PortName)
}
