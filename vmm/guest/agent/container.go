//go:build linux

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"agentbox/vmm/unmap"
)

// MainContainer is PID 1 of a container (vmm/container): the launcher has mounted everything and
// configured the network card, and the host's kernel holds the box to its limits. If watch is not 0,
// it does not hold it to this many bytes of memory, and the agent does. It never returns.
func MainContainer(watch string) {
	limit, err := strconv.ParseInt(watch, 10, 64)
	if err != nil {
		fmt.Fprintf(os.Stderr, "agentbox: a container's memory: %v\n", err)
		os.Exit(1)
	}
	machine := func(b *booter) Machine { return b.containerMachine(limit) }
	if !run((*booter).runContainer, machine, openStandardStream) {
		os.Exit(1)
	}
	os.Exit(0)
}

// runContainer is run for a container. The kernel's boot id stays the host's: what covers it would
// keep containers in the box from mounting their own /proc.
func (b *booter) runContainer() error {
	return runSteps([]step{
		{"make temporary directories", mountRuntimeTmp},
		{"tune the kernel", tune},
		{"find the box's user", b.findUser},
		{"set the name server", nameServer},
		{"prepare the certificates", b.findAuthorities},
		{"prepare for files of the host", func() error { return prepareFiles(b.root) }},
	})
}

// containerMachine is the container that the agent is in: like a sandbox, but all processes that the
// agent sees are the box's, and how many there may be is a limit of the kernel.
func (b *booter) containerMachine(limit int64) Machine {
	box := &gvisorBox{log: b.log, list: otherProcesses, memory: groupMemory}
	if limit > 0 {
		box.memory = func() (int64, int64, error) { return limit, max(limit-usedMemory(), 0), nil }
		go box.watch() // for the life of the machine
	}
	m := b.sandbox(box)
	m.Cgroup = func(string) (*os.File, func(), error) { return nil, func() {}, nil }
	m.LimitUser = limitProcesses
	m.Rest = rest
	return m
}

// rest gives back what the last command took of the host's memory: the program's own pages are the
// half of an idle container's.
func rest() {
	debug.FreeOSMemory()
	_ = unmap.Program() // what stays mapped after an error is memory
}

// limitProcesses sets how many processes and threads each user of the box may have, the default for
// 0. What the agent starts inherits it. It can only be lowered.
func limitProcesses(pids int) error {
	if pids <= 0 {
		pids = defaultPIDs
	}
	var have syscall.Rlimit
	if err := syscall.Getrlimit(unix.RLIMIT_NPROC, &have); err != nil || have.Max <= uint64(pids) {
		return err
	}
	return syscall.Setrlimit(unix.RLIMIT_NPROC, &syscall.Rlimit{Cur: uint64(pids), Max: uint64(pids)})
}

// otherProcesses lists all processes but the agent.
func otherProcesses() (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		if pid, err := strconv.Atoi(filepath.Base(name)); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// groupMemory is memory for a container whose control group has a limit. What the kernel can take
// back at once counts as available.
func groupMemory() (total, available int64, err error) {
	total, used := int64(readNumber(cgroupRoot+"/memory.max", "")), int64(readNumber(cgroupRoot+"/memory.current", ""))
	used -= int64(readNumber(cgroupRoot+"/memory.stat", "inactive_file"))
	return total, max(total-used, 0), nil
}

// usedMemory is a container's processes' own, and its file systems in memory.
func usedMemory() (bytes int64) {
	for _, pid := range append(otherProcesses(), os.Getpid()) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid)) // one that has ended has none
		if f := strings.Fields(string(text)); len(f) > 2 {
			resident, _ := strconv.ParseInt(f[1], 10, 64)
			shared, _ := strconv.ParseInt(f[2], 10, 64)
			bytes += (resident - shared) * int64(os.Getpagesize())
		}
	}
	for _, dir := range []string{"/dev/shm", "/run"} {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil {
			bytes += int64(st.Blocks-st.Bfree) * st.Bsize
		}
	}
	return bytes
}
