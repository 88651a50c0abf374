// Command escape tries the known ways out of a container, as a program in one. None would do harm
// where it succeeds: it reads, or opens for writing and writes nothing, or uses what the test made for
// it. It prints a line for each: what it was, and "refused: " with the error or "SUCCEEDED".
package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What the test has on the host, from the arguments: a file, a process, a port of TCP and an abstract
// socket, on which it listens, and its namespaces.
var canary struct {
	file, abstract, port, namespaces string
	pid                              int
}

func main() {
	runtime.LockOSThread()
	canary.file, canary.port, canary.abstract, canary.namespaces = os.Args[2], os.Args[4], os.Args[5], os.Args[6]
	canary.pid, _ = strconv.Atoi(os.Args[3])
	if os.Args[1] != "all" {
		if err := attacks[os.Args[1]](); err != nil {
			fmt.Println("refused:", strings.ReplaceAll(err.Error(), "\n", "; "))
		} else {
			fmt.Println("SUCCEEDED")
		}
		return
	}
	names := make([]string, 0, len(attacks))
	for name := range attacks {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names { // each in a process of its own: some change the process for good
		out, err := exec.Command("/attack", append([]string{name}, os.Args[2:]...)...).CombinedOutput()
		if err != nil {
			out = append(bytes.TrimSpace(out), []byte(" "+err.Error())...)
		}
		fmt.Printf("%s\t%s\n", name, bytes.TrimSpace(out))
	}
}

func call(number uintptr, args ...uintptr) func() error {
	args = append(args, 0, 0, 0, 0, 0, 0)
	return func() error {
		if _, _, errno := unix.Syscall6(number, args[0], args[1], args[2], args[3], args[4], args[5]); errno != 0 {
			return errno
		}
		return nil
	}
}

func read(path string) func() error {
	return func() error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.Read(make([]byte, 1))
		return err
	}
}

// write opens for writing, and writes nothing.
func write(path string) func() error {
	return func() error {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return f.Close()
	}
}

func mount(kind, source, data string) func() error {
	return func() error {
		dir, err := os.MkdirTemp("/tmp", "mount")
		if err != nil {
			return err
		}
		if err := unix.Mount(source, dir, kind, 0, data); err != nil {
			return err
		}
		return unix.Unmount(dir, unix.MNT_DETACH)
	}
}

func socket(family, kind, protocol int) func() error {
	return func() error {
		fd, err := unix.Socket(family, kind, protocol)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
}

func node(mode uint32, major, minor uint32) func() error {
	return func() error {
		path := "/tmp/node" + strconv.Itoa(os.Getpid())
		if err := unix.Mknod(path, mode|0o600, int(unix.Mkdev(major, minor))); err != nil {
			return err
		}
		return read(path)()
	}
}

// nested tries something as root of a user namespace below the box's.
func nested(name string) func() error {
	return func() error {
		cmd := exec.Command("/attack", append([]string{name}, os.Args[2:]...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
		out, err := cmd.Output()
		if err == nil && !strings.HasPrefix(string(out), "SUCCEEDED") {
			err = errors.New(strings.TrimSpace(string(out)))
		}
		return err
	}
}

var path, _ = unix.BytePtrFromString("/workspace")

var attacks = map[string]func() error{
	// Files of the host.
	"a file of the host by its name":       func() error { return read(canary.file)() },
	"by the root of process 1":             func() error { return read("/proc/1/root" + canary.file)() },
	"by a chroot within a chroot":          chrootTwice,
	"by what lies under the root":          underRoot,
	"by a file handle":                     fileHandle,
	"by a descriptor of process 1":         leaked,
	"the agent's program, to be replaced":  write("/proc/1/exe"),
	"the agent's program, to be changed":   func() error { return chmodOpened("/proc/1/exe") },
	"the host's disk, made anew":           hostDisk,
	"the host's memory, made anew":         node(unix.S_IFCHR, 1, 1),
	"the kernel's log, made anew":          node(unix.S_IFCHR, 1, 11),
	"the host's memory":                    read("/dev/mem"),
	"a disk":                               func() error { return anyOf("/dev/[shv]d[a-z]", "/dev/nvme*", "/dev/loop*", "/dev/dm-*", "/dev/kvm") },
	"a file system of a disk":              mount("ext4", "/dev/vda", ""),
	"a file system of an image":            mount("erofs", "/attack", ""),
	"a file system, below":                 nested("a file system of a disk"),
	"a device, below":                      nested("the host's memory, made anew"),
	"the kernel's trace":                   mount("tracefs", "tracefs", ""),
	"the kernel's debug files":             mount("debugfs", "debugfs", ""),
	"the security modules":                 mount("securityfs", "securityfs", ""),
	"a mapped mount of the workspace":      mappedMount,
	"programs that are root by their mode": setuidFile,
	// /proc and /sys.
	"the handler of core files": write("/proc/sys/kernel/core_pattern"),
	"the loader of modules":     write("/proc/sys/kernel/modprobe"),
	"the SysRq key":             write("/proc/sysrq-trigger"),
	"the kernel's memory":       read("/proc/kcore"),
	"memory of the host":        write("/proc/sys/vm/drop_caches"),
	"program formats": func() error {
		return errors.Join(mount("binfmt_misc", "binfmt_misc", "")(), write("/proc/sys/fs/binfmt_misc/register")())
	},
	"the helper of hotplug":      remounted("/sys", "/sys/kernel/uevent_helper"),
	"the power of the machine":   remounted("/sys", "/sys/power/state"),
	"interrupts":                 write("/proc/irq/default_smp_affinity"),
	"secrets of the environment": func() error { return contains("/proc/1/environ", "AGENTBOX_HOME") },
	// Control groups.
	"a release agent":          releaseAgent,
	"the release agent, below": nested("a release agent"),
	"groups of the host":       hostGroups,
	// Processes.
	"a process of the host":           func() error { return unix.Kill(canary.pid, 0) },
	"a process of the host, traced":   func() error { return unix.PtraceAttach(canary.pid) },
	"a process of the host, opened":   func() error { _, err := unix.PidfdOpen(canary.pid, 0); return err },
	"memory of a process of the host": hostMemory,
	"a namespace of the host":         sharedNamespace,
	"priority over the host":          func() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -20) },
	"real time":                       realTime,
	"protection from the killer":      func() error { return os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0) },
	"more open files than the host":   func() error { return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1 << 30, Max: 1 << 30}) },
	// The kernel's other parts.
	"keys of a session":        call(unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, ^uintptr(2), 0),
	"a key of the host":        call(unix.SYS_REQUEST_KEY),
	"a key":                    call(unix.SYS_ADD_KEY),
	"a module":                 call(unix.SYS_FINIT_MODULE, ^uintptr(0)),
	"another kernel":           call(unix.SYS_KEXEC_LOAD),
	"the kernel's messages":    call(unix.SYS_SYSLOG, 10),
	"the clock":                call(unix.SYS_CLOCK_SETTIME, unix.CLOCK_REALTIME),
	"swap":                     call(unix.SYS_SWAPOFF, uintptr(unsafe.Pointer(path))),
	"accounts":                 call(unix.SYS_ACCT),
	"quotas":                   call(unix.SYS_QUOTACTL),
	"page faults":              call(unix.SYS_USERFAULTFD),
	"a program in the kernel":  kernelProgram,
	"counters of all programs": allCounters,
	"a ring":                   ringSocket,
	// The network.
	"vsock":                         socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0),
	"bluetooth":                     socket(unix.AF_BLUETOOTH, unix.SOCK_RAW, 1),
	"the kernel's ciphers":          socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0),
	"RDS":                           socket(21, unix.SOCK_SEQPACKET, 0),
	"a port of the host":            func() error { return dial("tcp", "127.0.0.1:"+canary.port) },
	"an abstract socket":            func() error { return dial("unix", "@"+canary.abstract) },
	"an interface of the host":      otherInterface,
	"an interface, sent to process": moveInterface,
	"the audit of the host":         audit,
}

func dial(network, address string) error {
	c, err := net.DialTimeout(network, address, 5*time.Second)
	if err == nil {
		c.Close()
	}
	return err
}

func anyOf(patterns ...string) error {
	for _, p := range patterns {
		if found, _ := filepath.Glob(p); len(found) > 0 {
			return nil
		}
	}
	return os.ErrNotExist
}

func contains(path, text string) error {
	b, err := os.ReadFile(path)
	if err == nil && !bytes.Contains(b, []byte(text)) {
		err = errors.New("it has none")
	}
	return err
}

func chmodOpened(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return f.Chmod(info.Mode())
}

func chrootTwice() error {
	if err := os.MkdirAll("/tmp/jail", 0o755); err != nil {
		return err
	}
	if err := unix.Chroot("/tmp/jail"); err != nil {
		return err
	}
	for range 64 {
		if err := unix.Chdir(".."); err != nil {
			return err
		}
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return read(canary.file)()
}

// underRoot takes the root away, and enters the mount namespace anew, where it leads to what is
// mounted below.
func underRoot() error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return err
	}
	ns, err := os.Open("/proc/self/ns/mnt")
	if err != nil {
		return err
	}
	if err := unix.Unmount("/", unix.MNT_DETACH); err != nil {
		return err
	}
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNS); err != nil {
		return err
	}
	return read(canary.file)()
}

func fileHandle() error {
	handle, id, err := unix.NameToHandleAt(unix.AT_FDCWD, "/workspace", 0)
	if err != nil {
		return err
	}
	_ = id
	dir, err := os.Open("/workspace")
	if err != nil {
		return err
	}
	b := handle.Bytes()
	copy(b, []byte{2, 0, 0, 0, 0, 0, 0, 0}) // the root of a file system
	_, err = unix.OpenByHandleAt(int(dir.Fd()), unix.NewFileHandle(handle.Type(), b), unix.O_RDONLY)
	return err
}

// leaked looks for a file or directory of the host among the descriptors of process 1 and our own.
func leaked() error {
	all, _ := filepath.Glob("/proc/[1s]*/fd/*")
	for _, fd := range all {
		target, err := os.Readlink(fd)
		if err == nil && strings.HasPrefix(target, "/") && !strings.HasPrefix(target, "/dev/") && !strings.HasPrefix(target, "/proc/") {
			if _, err := os.Stat(target); err != nil { // it has no such name here
				return nil
			}
		}
	}
	return fmt.Errorf("none of %d leads to one", len(all))
}

func hostDisk() error {
	devices, err := os.ReadFile("/proc/partitions")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(devices)) {
		f := strings.Fields(line)
		if len(f) < 4 || f[0] == "major" {
			continue
		}
		major, _ := strconv.Atoi(f[0])
		minor, _ := strconv.Atoi(f[1])
		if err = node(unix.S_IFBLK, uint32(major), uint32(minor))(); err == nil {
			return nil
		}
	}
	return errors.Join(err, errors.New("no disk"))
}

func mappedMount() error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, "/workspace", unix.OPEN_TREE_CLONE)
	if err != nil {
		return err
	}
	ns, err := os.Open("/proc/self/ns/user")
	if err != nil {
		return err
	}
	return unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(ns.Fd())})
}

// setuidFile has root's program in the workspace, where the host sees it, run by another user.
func setuidFile() error {
	program, err := os.ReadFile("/attack")
	if err != nil {
		return err
	}
	name := "/workspace/setuid" + strconv.Itoa(os.Getuid())
	defer os.Remove(name)
	if err := errors.Join(os.WriteFile(name, program, 0o755), os.Chmod(name, 0o4755|os.ModeSetuid)); err != nil {
		return err
	}
	cmd := exec.Command(name, append([]string{"am I root"}, os.Args[2:]...)...)
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 2000, Gid: 2000}}
	}
	out, err := cmd.Output()
	if err == nil && !strings.HasPrefix(string(out), "SUCCEEDED") {
		err = errors.New(strings.TrimSpace(string(out)))
	}
	return err
}

func remounted(dir, file string) func() error {
	return func() error {
		unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND, "")
		unix.Mount("", dir, "", unix.MS_REMOUNT, "")
		return write(file)()
	}
}

// hostGroups looks for a group that is not below the box's.
func hostGroups() error {
	dir, err := os.MkdirTemp("/tmp", "groups")
	if err != nil {
		return err
	}
	if err := unix.Mount("cgroup2", dir, "cgroup2", 0, ""); err != nil {
		return err
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	if text, err := os.ReadFile(dir + "/cgroup.procs"); err != nil || slices.Contains(strings.Fields(string(text)), strconv.Itoa(canary.pid)) {
		return err
	}
	if _, err := os.Stat(dir + "/cgroup.type"); err == nil {
		return errors.New("the root of what it sees is its own group")
	}
	return write(dir + "/cgroup.procs")() // only the host's root group has none
}

// releaseAgent mounts groups of version 1, where the host has them, and would change what is there.
func releaseAgent() error {
	err := errors.New("there are none")
	for _, kind := range []string{"memory", "devices", "freezer", "pids", "cpu", "none,name=systemd"} {
		dir, dirErr := os.MkdirTemp("/tmp", "groups")
		if dirErr != nil {
			return dirErr
		}
		if err = unix.Mount("cgroup", dir, "cgroup", 0, kind); err != nil {
			continue
		}
		defer unix.Unmount(dir, unix.MNT_DETACH)
		for _, file := range []string{"release_agent", "tasks", "devices.allow", "memory.limit_in_bytes", "freezer.state"} {
			if err = write(filepath.Join(dir, file))(); err == nil {
				return nil
			}
		}
		if os.Mkdir(filepath.Join(dir, "below"), 0o755) == nil {
			return os.Remove(filepath.Join(dir, "below"))
		}
	}
	return err
}

func hostMemory() error {
	var b [8]byte
	here := []unix.Iovec{{Base: &b[0], Len: 8}}
	_, err := unix.ProcessVMReadv(canary.pid, here, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
	return err
}

func sharedNamespace() error {
	for name := range strings.FieldsSeq(canary.namespaces) {
		kind, _, _ := strings.Cut(name, ":")
		own, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			return err
		}
		if own == name {
			fmt.Println(name)
			return nil
		}
	}
	return errors.New("none is shared")
}

func realTime() error {
	param := int32(1)
	return call(unix.SYS_SCHED_SETSCHEDULER, 0, 1, uintptr(unsafe.Pointer(&param)))()
}

// kernelProgram loads a probe that does nothing: it returns 0.
func kernelProgram() error {
	code := [2]uint64{0xb7, 0x95}
	license := [4]byte{'G', 'P', 'L', 0}
	attr := struct {
		kind, count    uint32
		code, license  uint64
		level, size    uint32
		log            uint64
		version, flags uint32
	}{kind: 2, count: 2, code: uint64(uintptr(unsafe.Pointer(&code))), license: uint64(uintptr(unsafe.Pointer(&license)))}
	return call(unix.SYS_BPF, 5, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))()
}

func allCounters() error {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))}
	_, err := unix.PerfEventOpen(&attr, -1, 0, -1, 0)
	return err
}

// ringSocket succeeds if a ring can be made while the kernel has sockets that only a filter denies.
func ringSocket() error {
	params := make([]byte, 120)
	if err := call(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params[0])))(); err != nil {
		return err
	}
	if os.Args[7] == "no vsock" {
		return errors.New("the kernel has no vsock")
	}
	return nil
}

func otherInterface() error {
	all, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range all {
		if i.Name != "lo" && i.Name != "eth0" {
			fmt.Println(i.Name)
			return nil
		}
	}
	return errors.New("there is no other")
}

// moveInterface gives the network card to the namespace of a process of the host.
func moveInterface() error {
	link, err := net.InterfaceByName("eth0")
	if err != nil {
		return err
	}
	m := binary(48)
	m = append(m, u16(unix.RTM_SETLINK)...)
	m = append(m, u16(unix.NLM_F_REQUEST|unix.NLM_F_ACK)...)
	m = append(m, make([]byte, 12)...)
	m = append(m, binary(uint32(link.Index))...)
	m = append(m, make([]byte, 8)...)
	m = append(m, u16(8)...)
	m = append(m, u16(unix.IFLA_NET_NS_PID)...)
	m = append(m, binary(uint32(canary.pid))...)
	return netlink(unix.NETLINK_ROUTE, append(m, make([]byte, 8)...))
}

func audit() error {
	m := binary(16)
	m = append(m, u16(1000)...) // AUDIT_GET
	m = append(m, u16(unix.NLM_F_REQUEST|unix.NLM_F_ACK)...)
	return netlink(unix.NETLINK_AUDIT, append(m, make([]byte, 8)...))
}

func netlink(protocol int, m []byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, protocol)
	if err != nil {
		return err
	}
	if err := unix.Sendto(fd, m, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil || n < 20 {
		return errors.Join(err, errors.New("no answer"))
	}
	if code := *(*int32)(unsafe.Pointer(&answer[16])); answer[4] == unix.NLMSG_ERROR && code != 0 {
		return unix.Errno(-code)
	}
	return nil
}

func binary(v uint32) []byte { return []byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)} }
func u16(v int) []byte       { return []byte{byte(v), byte(v >> 8)} }

func init() {
	attacks["am I root"] = func() error {
		if os.Geteuid() == 0 && len(os.Args[0]) > len("/attack") {
			return nil
		}
		return errors.New("no, " + strconv.Itoa(os.Geteuid()))
	}
}
