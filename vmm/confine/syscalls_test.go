package confine

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

func call(number uintptr, args ...uintptr) func() error {
	args = append(args, 0, 0, 0)
	return func() error {
		if _, _, errno := unix.Syscall(number, args[0], args[1], args[2]); errno != 0 {
			return errno
		}
		return nil
	}
}

// allDenied tries all attacks on a confined thread, and then what must work.
func allDenied(t *testing.T, attacks map[string]func() error, works func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		err := Thread(Files{})
		if err == nil {
			for what, try := range attacks {
				if err := try(); !errors.Is(err, unix.EPERM) {
					t.Errorf("%s: %v", what, err)
				}
			}
			err = works()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// A thread keeps the connection that it was given and gets no other, whatever it tries.
func TestThreadOpensNoSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	fresh, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0) // as if one leaked
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fresh)
	attacks := map[string]func() error{
		"connect":     func() error { return unix.Connect(fresh, &unix.SockaddrUnix{Name: path}) },
		"bind":        func() error { return unix.Bind(fresh, &unix.SockaddrUnix{Name: path + "2"}) },
		"listen":      call(unix.SYS_LISTEN, uintptr(fresh), 1),
		"accept":      call(unix.SYS_ACCEPT4, uintptr(fresh)),
		"socketpair":  func() error { _, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0); return err },
		"io_uring":    call(unix.SYS_IO_URING_SETUP, 1),
		"ptrace":      call(unix.SYS_PTRACE, unix.PTRACE_ATTACH, uintptr(os.Getppid())),
		"pidfd_getfd": call(unix.SYS_PIDFD_GETFD, 0, 0),
		"keyctl":      call(unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, 0),
		"unshare":     call(unix.SYS_UNSHARE, unix.CLONE_NEWUSER),
	}
	if runtime.GOARCH == "amd64" {
		attacks["socket by the x32 ABI"] = call(firstX32|unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM)
	}
	for family, name := range map[uintptr]string{
		unix.AF_UNIX: "unix", unix.AF_INET: "IPv4", unix.AF_INET6: "IPv6", unix.AF_NETLINK: "netlink", unix.AF_VSOCK: "vsock",
		unix.AF_PACKET: "packet", unix.AF_ALG: "alg", unix.AF_BLUETOOTH: "bluetooth",
	} {
		attacks[name+" socket"] = call(unix.SYS_SOCKET, family, unix.SOCK_STREAM)
	}
	allDenied(t, attacks, func() error {
		_, err := unix.Write(pair[0], []byte("x"))
		return err
	})
	if n, err := unix.Read(pair[1], make([]byte, 2)); n != 1 || err != nil {
		t.Errorf("the connection it was given: %d, %v", n, err)
	}
	if err := unix.Connect(fresh, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Errorf("the rest of the process: %v", err)
	}
}

// Landlock denies neither what changes a file's mode, owner, times and attributes, nor System V's
// memory and messages, which any program of the user may attach to.
func TestThreadChangesNothingOfOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd := int(f.Fd())
	attacks := map[string]func() error{
		"chmod":             func() error { return unix.Chmod(path, 0o666) },
		"fchmod":            func() error { return unix.Fchmod(fd, 0o666) },
		"fchmodat2":         func() error { return unix.Fchmodat(unix.AT_FDCWD, path, 0o666, unix.AT_SYMLINK_NOFOLLOW) },
		"chown":             func() error { return unix.Chown(path, os.Getuid(), os.Getgid()) },
		"lchown":            func() error { return unix.Lchown(path, os.Getuid(), os.Getgid()) },
		"fchown":            func() error { return unix.Fchown(fd, os.Getuid(), os.Getgid()) },
		"utimensat":         func() error { return unix.UtimesNano(path, make([]unix.Timespec, 2)) },
		"setxattr":          func() error { return unix.Setxattr(path, "user.x", []byte("x"), 0) },
		"fremovexattr":      func() error { return unix.Fremovexattr(fd, "user.x") },
		"shmget":            call(unix.SYS_SHMGET, 0, 4096, unix.IPC_CREAT|0o600),
		"msgget":            call(unix.SYS_MSGGET, 0, 0),
		"mq_open":           call(unix.SYS_MQ_OPEN),
		"mount":             call(unix.SYS_MOUNT),
		"finit_module":      call(unix.SYS_FINIT_MODULE),
		"clock_settime":     call(unix.SYS_CLOCK_SETTIME, unix.CLOCK_REALTIME),
		"open_by_handle_at": call(unix.SYS_OPEN_BY_HANDLE_AT),
	}
	allDenied(t, attacks, func() error { return unix.Fstat(fd, &unix.Stat_t{}) })
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// Each ABI of a processor has numbers of its own for the same calls.
func TestFilterKnowsNoOtherABI(t *testing.T) {
	deny := int(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM))
	program, err := filter("amd64", denied, nil)
	if err != nil {
		t.Fatal(err)
	}
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	for what, test := range map[string]struct {
		arch, number uint32
		want         int
	}{
		"read":                  {unix.AUDIT_ARCH_X86_64, 0, unix.SECCOMP_RET_ALLOW},
		"seccomp, for its own":  {unix.AUDIT_ARCH_X86_64, 317, unix.SECCOMP_RET_ALLOW},
		"socket":                {unix.AUDIT_ARCH_X86_64, 41, deny},
		"io_uring_setup":        {unix.AUDIT_ARCH_X86_64, 425, deny},
		"read, x32":             {unix.AUDIT_ARCH_X86_64, firstX32, deny},
		"socket, x32":           {unix.AUDIT_ARCH_X86_64, firstX32 | 41, deny},
		"the last number":       {unix.AUDIT_ARCH_X86_64, 1<<32 - 1, deny},
		"socketcall, int 0x80":  {unix.AUDIT_ARCH_I386, 102, deny},
		"socket, int 0x80":      {unix.AUDIT_ARCH_I386, 359, deny},
		"exit, int 0x80":        {unix.AUDIT_ARCH_I386, 1, deny},
		"a processor elsewhere": {unix.AUDIT_ARCH_AARCH64, 63, deny},
	} {
		shown := binary.BigEndian.AppendUint32(nil, test.number) // the order in which the VM loads; the kernel's is the processor's
		shown = binary.BigEndian.AppendUint32(shown, test.arch)
		if got, err := vm.Run(shown); got != test.want || err != nil {
			t.Errorf("%s: %#x, %v", what, got, err)
		}
	}
	if _, err := filter("riscv64", denied, nil); err == nil {
		t.Error("an architecture that nobody looked at has a filter")
	}
}

// Of sockets only those of the listed families can be made, by either call. Whatever else a call has
// in the place of the family does not matter.
func TestFilterKnowsFamilies(t *testing.T) {
	deny := int(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM))
	program, err := filter("amd64", []uint32{425}, []uint32{unix.AF_UNIX, unix.AF_INET})
	if err != nil {
		t.Fatal(err)
	}
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		number, first uint32
		want          int
	}{
		{unix.SYS_SOCKET, unix.AF_UNIX, unix.SECCOMP_RET_ALLOW}, {unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SECCOMP_RET_ALLOW},
		{unix.SYS_SOCKET, unix.AF_INET, unix.SECCOMP_RET_ALLOW}, {unix.SYS_SOCKET, unix.AF_VSOCK, deny}, {unix.SYS_SOCKETPAIR, unix.AF_VSOCK, deny},
		{unix.SYS_SOCKET, unix.AF_BLUETOOTH, deny}, {unix.SYS_SOCKET, 1 << 31, deny}, {unix.SYS_READ, unix.AF_VSOCK, unix.SECCOMP_RET_ALLOW},
		{425, unix.AF_UNIX, deny},
	} {
		shown := binary.BigEndian.AppendUint32(nil, c.number)
		shown = append(binary.BigEndian.AppendUint32(shown, unix.AUDIT_ARCH_X86_64), make([]byte, 8)...)
		shown = binary.BigEndian.AppendUint32(shown, c.first)
		if got, err := vm.Run(shown); got != c.want || err != nil {
			t.Errorf("call %d of %d: %#x, %v", c.number, c.first, got, err)
		}
	}
}
