//go:build linux

package agent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"agentbox/vmm/guest/protocol"
)

// common is the part of a Machine that every kind of machine has.
func (b *booter) common() Machine {
	return Machine{
		Kernel:      kernelRelease(),
		SetHostname: setHostname, NameServices: nameServices,
		SetMachineID: func(id string) error {
			return errors.Join(setMachineID(id), setBootID(id))
		},
		LookupUser: func(name string) (User, error) {
			return lookupUser(b.root, func(n string, _ int) bool { return n == name })
		},
		Trust:      b.authorities.trust,
		Sync:       unix.Sync,
		Workspace:  protocol.WorkspaceDir,
		LogDir:     protocol.ServiceLogDir,
		Roots:      protocol.ContainersDir,
		FirstStart: protocol.FirstStartDir, EarlyWait: earlyWait,
	}
}

func (b *booter) machine() Machine {
	box := &cgroups{dir: boxGroup, pids: defaultPIDs} // as setUpCgroups left it
	disk := &workspaceDisk{target: protocol.WorkspaceDir, user: b.user, device: b.workspace}
	m := b.common()
	m.AddEntropy, m.SetClock = b.addEntropy, setClock
	m.FreezeUser, m.ThawUser, m.Cgroup, m.LimitUser = box.freeze, box.thaw, box.join, box.limit
	m.TermUser = func(wait time.Duration) { terminate(box, wait) }
	m.KillUser = func() {
		if err := box.kill(); err != nil {
			b.log.Error("kill user processes", "err", err)
		}
	}
	m.Mount, m.Unmount, m.DropCaches, m.DropSlots = disk.mount, disk.unmount, dropCaches, disk.drop
	m.Stats = func() (protocol.GuestStats, error) { return stats(box) }
	return m
}

func kernelRelease() string {
	text, _ := os.ReadFile("/proc/sys/kernel/osrelease") // empty if unknown
	return strings.TrimSpace(string(text))
}

// addEntropy mixes seed into the kernel's generator and reseeds it at once: otherwise what is drawn
// in the next minutes would be the same in every clone. seed comes from the host's own generator
// and counts as full entropy.
func (b *booter) addEntropy(seed []byte) error {
	info := binary.NativeEndian.AppendUint32(nil, uint32(8*len(seed))) // struct rand_pool_info
	info = binary.NativeEndian.AppendUint32(info, uint32(len(seed)))
	info = append(info, seed...)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(b.random), unix.RNDADDENTROPY, uintptr(unsafe.Pointer(&info[0]))); errno != 0 {
		return fmt.Errorf("RNDADDENTROPY: %w", errno)
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(b.random), unix.RNDRESEEDCRNG, 0); errno != 0 {
		return fmt.Errorf("RNDRESEEDCRNG: %w", errno)
	}
	return nil
}

// setClock steps the clock. It leaves the time zone alone.
func setClock(t time.Time) error {
	ts := unix.NsecToTimespec(t.UnixNano())
	return unix.ClockSettime(unix.CLOCK_REALTIME, &ts)
}

// setHostname also writes /etc/hosts, so that sudo and others need not ask a name server.
func setHostname(name string) error {
	if err := unix.Sethostname([]byte(name)); err != nil {
		return err
	}
	if err := replaceFile("/etc/hostname", name+"\n"); err != nil {
		return err
	}
	old, err := os.ReadFile("/etc/hosts")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return replaceFile("/etc/hosts", addHostEntry(string(old), name))
}

// addHostEntry adds localhost and name to a hosts file. A line for 127.0.1.1, where Debian keeps a
// host's own name, is replaced.
func addHostEntry(old, name string) string {
	var out strings.Builder
	local := false
	for line := range strings.Lines(old) {
		fields := strings.Fields(line)
		if len(fields) > 0 && fields[0] == "127.0.1.1" {
			continue
		}
		local = local || len(fields) > 1 && fields[0] == "127.0.0.1"
		out.WriteString(strings.TrimRight(line, "\n") + "\n")
	}
	if !local {
		out.WriteString("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n")
	}
	out.WriteString("127.0.1.1\t" + name + "\n")
	return out.String()
}

// setMachineID writes the id where systemd and D-Bus look for it. A link between the two stays.
func setMachineID(id string) error {
	if err := replaceFile("/etc/machine-id", id+"\n"); err != nil {
		return err
	}
	const dbus = "/var/lib/dbus/machine-id"
	if st, err := os.Lstat(dbus); err == nil && st.Mode().IsRegular() {
		return replaceFile(dbus, id+"\n")
	}
	return nil
}

// replaceFile writes a small file in place, unless it has this text already. A symlink that leads
// nowhere is replaced. No block is freed or allocated if the file has one, since a life waits for
// it. It is not safe against a crash: the runtime layer is lost with the machine anyway.
func replaceFile(path, text string) error {
	old, err := os.ReadFile(path)
	if err == nil && string(old) == text {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ELOOP) {
		if err := os.Remove(path); err != nil {
			return err
		}
		f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	// The file system has work even with a truncation to the same length.
	if len(old) > len(text) {
		err = errors.Join(err, f.Truncate(int64(len(text))))
	}
	return errors.Join(err, f.Close())
}

// terminate sends SIGTERM to every user process and waits until they have ended, at most wait.
// Frozen processes cannot handle a signal, so they are thawed first.
func terminate(box *cgroups, wait time.Duration) {
	if err := box.thaw(); err != nil {
		return // nothing can be asked of frozen processes; they are killed next
	}
	for _, pid := range box.processes() {
		syscall.Kill(pid, syscall.SIGTERM) // an error means that it has ended
	}
	box.await("populated 0", wait)
}
