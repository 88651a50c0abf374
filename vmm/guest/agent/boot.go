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
	// memoryLimit is in bytes, and a target of Go's collector, not a bound.
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

// run is the life of PID 1: it boots, serves and shuts down in order, for which the user in the box
// may ask by SIGTERM, SIGINT or SIGPWR. It is false, and has said why on the console, when the
// machine did not boot.
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

// How many files a program of the box may open, unless it asks for more, and when it does. The
// kernel would give its first process 4096.
const (
	usualFiles = 1024
	mostFiles  = 1 << 20
)

// raiseFileLimit starts the agent anew with the box's limits: Go gives programs those that it was
// started with. It returns without doing so where they are right already, so it happens once.
func raiseFileLimit() error {
	var have syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &have); err != nil || have.Max >= mostFiles {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: usualFiles, Max: mostFiles}); err != nil {
		return err
	}
	return syscall.Exec(os.Args[0], os.Args, os.Environ())
}

// powerOff ends the machine; it does not return. Where the machine cannot be switched off it
// restarts, which QEMU takes for its end, too.
func powerOff() {
	syscall.Sync()
	for {
		syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
		syscall.Reboot(syscall.LINUX_REBOOT_CMD_RESTART)
		time.Sleep(time.Second)
	}
}

// booter brings up a virtual machine. Its methods run one after the other, before there is an
// Agent; machine and gvisorMachine then take over what it found.
type booter struct {
	log *slog.Logger
	// Where the box's file system is; / outside of tests.
	root string
	user User

	workspace   string // the device of its slot, "" without one
	random      int    // the kernel's generator, open for as long as the machine runs: every life begins with it
	authorities *authorities
}

// run goes from the initramfs to a machine that is ready for its first Hello. What comes first is
// needed by what follows: modules before disks, disks before the root, the root before anything in
// it. A step that fails ends the boot.
func (b *booter) run() error {
	return runSteps([]step{
		{"do without signals of children", forgoChildSignals},
		{"mount the kernel's file systems", mountKernel},
		{"load modules", loadModules},
		{"mount the root file system", mountRoot},
		{"find the workspace's disk", b.findWorkspace},
		{"switch to the root file system", switchRoot},
		{"mount temporary file systems", mountTemporary},
		{"cover the boot id", coverBootID},
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

// findWorkspace remembers the device, so that a clone need not look for it. A machine without one
// may do without.
func (b *booter) findWorkspace() error {
	device, err := slot(protocol.SlotWorkspace)
	if err != nil {
		b.log.Warn("there is no disk for a workspace", "err", err)
		return nil
	}
	b.workspace = device
	return nil
}

// loadModules loads what the initramfs brings, in the order of its list. A module that is there
// already, or for a device that is not there, is no error.
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

// tune writes kernel settings. A kernel that lacks one does without. Watches, maps and ports are as
// generous as a developer's machine: the box is the boundary. Errors are dropped: gVisor has few of
// these files, and none is needed for a box to work.
func tune() error {
	for name, value := range map[string]string{
		"fs/inotify/max_user_watches":         "1048576",
		"fs/inotify/max_user_instances":       "8192",
		"vm/max_map_count":                    "262144",
		"kernel/printk":                       "3 4 1 3",
		"net/ipv4/ip_unprivileged_port_start": "0",
		"net/ipv4/ping_group_range":           "0 2147483647",
		// Sessions share the CPU with one another and with the agent, whatever number of processes
		// each has: one that forks without end leaves the next its share.
		"kernel/sched_autogroup_enabled": "1",
		// What the kernel does every second or oftener, in case, wakes every idle box, and every
		// clone would translate it: it still compacts memory when somebody needs a large piece, and
		// keeps its statistics, which nobody reads so often.
		"vm/compaction_proactiveness": "0",
		"vm/stat_interval":            "60",
	} {
		os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0)
	}
	// Looking for memory that could be huge pages is work that every clone would begin with, and
	// copies what it finds.
	os.WriteFile("/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs", []byte("3600000"), 0)
	return tuneDisks()
}

// tuneDisks takes away what the kernel does for disks that are slow themselves: these are files of
// the host, which orders and delays what it writes.
func tuneDisks() error {
	queues, err := filepath.Glob("/sys/block/vd*/queue")
	for _, queue := range queues {
		os.WriteFile(filepath.Join(queue, "scheduler"), []byte("none"), 0)
		os.WriteFile(filepath.Join(queue, "wbt_lat_usec"), []byte("0"), 0)
	}
	return err
}

// openPort opens the virtio-serial port of the host's end of the protocol. The device is found by
// its name in sysfs, since its number depends on the order of devices. It may be opened once at a
// time.
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
