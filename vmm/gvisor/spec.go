package gvisor

import (
	"math"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"agentbox/vmm"
	"agentbox/vmm/gpu"
	"agentbox/vmm/guest/protocol"
	"agentbox/vmm/gvisor/plan"
)

// agentPath is the path of the guest agent in the guest. agentMode tells it that this is no virtual
// machine.
const (
	agentPath = "/dev/agentbox-guest"
	agentMode = "gvisor"
)

// describe returns the OCI description of a machine. memory and disk, to which the runtime layer
// may grow, are in bytes; gpus is what it has of the host's GPUs, whose calls gVisor checks and
// passes on (nvproxy) once there is /dev/nvidiactl. It is a pure function and has no name of a
// machine and no path of the host, because gVisor compares the description of a state with that of
// the machine into which it is restored, and Fingerprint covers it. Machines differ only in what
// the launcher mounts at these paths. /run and /dev/shm are memory of the guest, /proc and /sys are
// gVisor's own. The network namespace is the launcher's, which has the interface.
func describe(memory, disk int64, gpus gpu.Needs) *specs.Spec {
	spec := &specs.Spec{
		Version:  "1.0.2",
		Hostname: "agentbox",
		Root:     &specs.Root{Path: inMachine + "/" + rootfsDir},
		Process: &specs.Process{
			Args:         []string{agentPath, agentMode},
			Env:          []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
			Cwd:          "/",
			Capabilities: capabilities(),
			Rlimits: []specs.POSIXRlimit{
				{Type: "RLIMIT_NOFILE", Soft: protocol.DefaultFiles, Hard: protocol.MaxFiles},
				{Type: "RLIMIT_CORE", Soft: 0, Hard: math.MaxUint64},
			},
		},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/sys", Type: "sysfs", Source: "sysfs"},
			{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "nodev", "mode=1777"}},
			{Destination: "/run", Type: "tmpfs", Source: "run", Options: []string{"nosuid", "nodev", "mode=0755"}},
			{Destination: agentPath, Type: "bind", Source: inAgent, Options: []string{"ro", "bind", "nosuid"}},
			{Destination: "/workspace", Type: "bind", Source: inWorkspace, Options: []string{"rw", "bind", "nodev"}},
		},
		Linux: &specs.Linux{Namespaces: []specs.LinuxNamespace{
			{Type: specs.PIDNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace}, {Type: specs.MountNamespace},
			{Type: specs.NetworkNamespace, Path: "/proc/self/ns/net"},
		}},
		Annotations: map[string]string{
			"dev.gvisor.spec.rootfs.type":    "erofs",
			"dev.gvisor.spec.rootfs.source":  inImage,
			"dev.gvisor.spec.rootfs.overlay": "dir=" + inMachine + "/" + overlayDir,
			"dev.gvisor.spec.rootfs.options": "size=" + strconv.FormatInt(disk, 10),
			"dev.agentbox.memory":            strconv.FormatInt(memory, 10), // see tools/runsc
		},
	}
	for _, d := range gpus.Devices {
		spec.Linux.Devices = append(spec.Linux.Devices, specs.LinuxDevice{Path: d.Target, Type: "c", Major: d.Major, Minor: d.Minor})
	}
	for i, f := range gpus.Files {
		spec.Mounts = append(spec.Mounts, specs.Mount{Destination: f.Target, Type: "bind", Source: inGPU(i), Options: []string{"ro", "bind", "nosuid", "nodev"}})
	}
	return spec
}

func gpuBinds(gpus gpu.Needs) (binds []plan.Bind) {
	for _, d := range gpus.Devices {
		binds = append(binds, plan.Bind{Source: d.Source, Target: d.Target, Writable: true, Device: true})
	}
	for i, f := range gpus.Files {
		binds = append(binds, plan.Bind{Source: f.Source, Target: inGPU(i), Dir: f.Dir})
	}
	return binds
}

func gpusOf(spec vmm.Spec) (gpu.Needs, error) {
	if spec.GPUs == 0 {
		return gpu.Needs{}, nil
	}
	return gpu.Find(gpu.Dirs, spec.GPUs)
}

// capabilities are those of root in the guest, all that gVisor knows, none of them the host's.
func capabilities() *specs.LinuxCapabilities {
	var all []string
	for name := range strings.FieldsSeq(`CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
		NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT
		SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP`) {
		all = append(all, "CAP_"+name)
	}
	return &specs.LinuxCapabilities{Bounding: all, Effective: all, Permitted: all}
}

// runscFlags are the same for all machines. An ordinary user may make no cgroups
// (--ignore-cgroups). Nobody else changes a workspace while a machine has it, so gVisor may cache
// its metadata (--file-access-mounts=exclusive). runsc must not change settings of the host's
// kernel (--host-settings=ignore).
func runscFlags() []string {
	return []string{
		"--root=" + inMachine + "/" + stateDir,
		"--log=" + inMachine + "/" + logFile,
		"--platform=systrap",
		"--network=sandbox",
		"--net-raw",
		"--ignore-cgroups",
		"--host-settings=ignore",
		"--overlay2=root:dir=" + inMachine + "/" + overlayDir,
		"--file-access-mounts=exclusive",
		"--control-rpc-stop-timeout=0s", // do not wait for our connection, which is always open
		"--allow-suid",                  // for sudo in the box: root there is nobody here
		"--sidecar-usage-policy=LEGACY_DEPRECATED_SLOW_EMBEDDED_FALLBACK",
	}
}

// bootArgv is the command that starts the sandbox, in the machine's own root.
func bootArgv() []string {
	argv := append([]string{inRunsc}, runscFlags()...)
	return append(argv, "run", "--detach", "--bundle="+inMachine, "--pid-file="+inMachine+"/"+pidFile, containerID)
}

// restoreArgv is the command that starts it from the images in inSaved. The guest runs before all
// of its memory was read.
func restoreArgv() []string {
	argv := append([]string{inRunsc}, runscFlags()...)
	return append(argv, "restore", "--detach", "--background", "--image-path="+inSaved,
		"--bundle="+inMachine, "--pid-file="+inMachine+"/"+pidFile, containerID)
}
