package confine

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Files are what a confined program may open, as absolute paths. A directory means everything below
// it. A path that does not exist when Thread is called is no error, since a list may contain what
// only some distributions have.
type Files struct {
	Read  []string // to read and to run
	Write []string // to read, write, truncate and make; a device also to control
}

const (
	// A program that may be read may also be run: the list has programs and their libraries
	// together. On a file that is no directory the kernel refuses rules with other rights than
	// fileRights.
	readRights  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	fileRights  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	firstRights = 1<<13 - 1 // every right of the first version: all of them are denied where no rule grants them
)

// Available is nil if this kernel confines files by Landlock, and else says why it does not and how
// an administrator can change that. It does not cover the seccomp filter, without which Thread
// fails.
func Available() error {
	_, err := version()
	return err
}

// Signals reports whether this kernel keeps a confined program from signalling others: Linux 6.12
// and later do, if the erratum of signalsFixed is fixed. Otherwise the program can end other
// processes of its user.
func Signals() bool {
	v, err := version()
	return err == nil && handledRights(v).Scoped&unix.LANDLOCK_SCOPE_SIGNAL != 0
}

// version is that of the kernel's Landlock interface, from 1 on. The error is for people.
func version() (int, error) {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch errno {
	case 0:
		return int(v), nil
	case unix.EOPNOTSUPP:
		return 0, errors.New("in this kernel Landlock is switched off: add landlock to its lsm= parameter")
	case unix.ENOSYS:
		return 0, errors.New("this kernel has no Landlock, which came with Linux 5.13")
	}
	return 0, fmt.Errorf("landlock cannot be used: %w", errno)
}

// Thread confines the calling thread, and every process it starts, for as long as they live. Call
// it with the thread locked to its goroutine (runtime.LockOSThread), and never unlock it: the
// thread then ends with the goroutine. Without Landlock in the kernel it leaves files alone, see
// Available. After an error the thread may not be used further. Nothing can undo either mechanism,
// and running a setuid program gives no new rights (no_new_privs).
func Thread(files Files) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid new privileges: %w", err)
	}
	if v, err := version(); err == nil {
		if err := restrict(files, v); err != nil {
			return err
		}
	}
	return denyCalls()
}

// restrict takes from the calling thread what this version of Landlock can take. Files.Write gets
// every right, so that a machine can do with its own files and with /dev/kvm what it could without
// Landlock.
func restrict(files Files, version int) error {
	attr := handledRights(version)
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return fmt.Errorf("make a Landlock ruleset: %w", errno)
	}
	defer unix.Close(int(fd))
	for _, path := range files.Read {
		if err := allow(int(fd), path, readRights); err != nil {
			return err
		}
	}
	for _, path := range files.Write {
		if err := allow(int(fd), path, attr.Handled_access_fs); err != nil {
			return err
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("restrict by Landlock: %w", errno)
	}
	return nil
}

// handledRights is all that a version of Landlock can deny. It is denied unless a rule grants it.
// The kernel refuses a right that its version does not know, hence the cases. No rule grants TCP:
// the machine's network is a socket that it inherits.
func handledRights(version int) unix.LandlockRulesetAttr {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: firstRights}
	if version >= 2 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 4 {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if version >= 5 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
		if signalsFixed() {
			attr.Scoped |= unix.LANDLOCK_SCOPE_SIGNAL
		}
	}
	return attr
}

// signalsFixed reports whether threads of one confined process may signal one another, as Go's
// runtime must: at first they could not.
func signalsFixed() bool {
	const sameProcess = 1 << 1 // the kernel's erratum 2
	fixed, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_ERRATA)
	return errno == 0 && fixed&sameProcess != 0
}

// allow grants rights on a path and what is below it; on a file only those that files have.
func allow(ruleset int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("confine to %s: %w", path, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("confine to %s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fileRights
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("confine to %s: %w", path, errno)
	}
	return nil
}
