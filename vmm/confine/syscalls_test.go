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
	call := func(number uintptr, args ...uintptr) func() error {
		args = append(args, 0, 0, 0)
		return func() error {
			if _, _, errno := unix.Syscall(number, args[0], args[1], args[2]); errno != 0 {
				return errno
			}
			return nil
		}
	}
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
			_, err = unix.Write(pair[0], []byte("x"))
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Read(pair[1], make([]byte, 2)); n != 1 || err != nil {
		t.Errorf("the connection it was given: %d, %v", n, err)
	}
	if err := unix.Connect(fresh, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Errorf("the rest of the process: %v", err)
	}
}

// Each ABI of a processor has numbers of its own for the same calls.
func TestFilterKnowsNoOtherABI(t *testing.T) {
	deny := int(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM))
	program, err := filter("amd64")
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
	if _, err := filter("riscv64"); err == nil {
		t.Error("an architecture that nobody looked at has a filter")
	}
}
