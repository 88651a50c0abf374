package qemu

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// hostileProgramName is the name under which the test binary is a VMM that a guest has taken over.
const hostileProgramName = "taken-over-qemu"

// targets are what there is on the host to connect to. The VMM finds them on its workspace, one of
// the files it may read.
type targets struct {
	Path, Abstract string
	TCP            int
}

// HostileProgram tries what it can to reach a socket, says on one line what worked, and ends the
// process, if this is such a VMM.
func HostileProgram() {
	if filepath.Base(os.Args[0]) != hostileProgramName {
		return
	}
	if slices.Contains(os.Args, "--version") {
		fmt.Println("QEMU emulator version 99.1 (fake)")
		os.Exit(0)
	}
	workspace := regexp.MustCompile(`node-name=workspace,filename=([^,]+)`).FindStringSubmatch(strings.Join(os.Args, " "))
	b, err := os.ReadFile(workspace[1])
	var to targets
	if err == nil {
		err = json.Unmarshal(b, &to)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stderr, "reached:", strings.Join(to.reached(), ","))
	os.Exit(1)
}

func (to targets) reached() []string {
	connect := func(family, kind, protocol int, address unix.Sockaddr) func() error {
		return func() error {
			fd, err := unix.Socket(family, kind, protocol)
			if err == nil && address != nil {
				err = unix.Connect(fd, address)
			}
			return err
		}
	}
	local := [4]byte{127, 0, 0, 1}
	var worked []string
	for _, attack := range []struct {
		what string
		try  func() error
	}{
		{"path", connect(unix.AF_UNIX, unix.SOCK_STREAM, 0, &unix.SockaddrUnix{Name: to.Path})},
		{"abstract", connect(unix.AF_UNIX, unix.SOCK_STREAM, 0, &unix.SockaddrUnix{Name: to.Abstract})},
		{"tcp", connect(unix.AF_INET, unix.SOCK_STREAM, 0, &unix.SockaddrInet4{Port: to.TCP, Addr: local})},
		{"udp", connect(unix.AF_INET, unix.SOCK_DGRAM, 0, &unix.SockaddrInet4{Port: 9, Addr: local})},
		{"netlink", connect(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE, nil)},
		{"vsock", connect(unix.AF_VSOCK, unix.SOCK_STREAM, 0, nil)},
		{"pair", func() error { _, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0); return err }},
		{"given", func() error { _, err := unix.Write(fdAgent, []byte("x")); return err }},
	} {
		if attack.try() == nil {
			worked = append(worked, attack.what)
		}
	}
	return worked
}

// A VMM that a guest has taken over reaches nobody's socket: not the daemon's, not the session bus,
// no network. The same program without the confinement reaches them, so the attacks are real.
func TestMachineProcessOpensNoSocket(t *testing.T) {
	needTools(t)
	program := filepath.Join(t.TempDir(), hostileProgramName)
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, program)
	}
	if err != nil {
		t.Fatal(err)
	}
	to := targets{Path: filepath.Join(t.TempDir(), "daemon.sock"), Abstract: "@agentbox-test-bus-" + filepath.Base(t.TempDir()) + fmt.Sprint(os.Getpid())}
	listen := func(network, address string) net.Listener {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	listen("unix", to.Path)
	listen("unix", to.Abstract)
	to.TCP = listen("tcp", "127.0.0.1:0").Addr().(*net.TCPAddr).Port
	b, err := json.Marshal(to)
	if err != nil {
		t.Fatal(err)
	}
	boot := func(rewire func([]string) []string) string {
		spec := fakeSpec(t)
		spec.Workspace = filepath.Join(t.TempDir(), "workspace")
		if err := os.WriteFile(spec.Workspace, b, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := New(Config{Binary: program, StateDir: t.TempDir(), Accel: accelTCG, ModifyArgv: rewire}).Boot(context.Background(), spec)
		return fmt.Sprint(err)
	}
	free := boot(func(argv []string) []string { return argv })
	for _, what := range []string{"path,abstract,tcp,udp,netlink,", ",pair,given"} {
		if !strings.Contains(free, what) {
			t.Errorf("without confinement: %s", free)
		}
	}
	if err := boot(nil); !strings.HasSuffix(err, "reached: given") {
		t.Errorf("what runs a machine: %s", err)
	}
}
