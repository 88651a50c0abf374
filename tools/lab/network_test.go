package main

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"agentbox/agentbox"
)

// localClient runs tests on this machine.
type localClient struct{ at *netServer }

func (c localClient) server() (string, int) { return "127.0.0.1", c.at.port() }

func (c localClient) perl(ctx context.Context, script string, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, "perl", append([]string{"-e", script}, args...)...).CombinedOutput()
	if err != nil {
		return nil, errors.New(string(out))
	}
	return out, nil
}

func localServer(t *testing.T) *netServer {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return newNetServer(l)
}

func TestNetTest(t *testing.T) {
	if _, err := exec.LookPath("perl"); err != nil {
		t.Skip("perl is not installed")
	}
	s := localServer(t)
	c := localClient{s}
	for _, e := range netTests {
		e.amount = min(e.amount, 3<<20+1)
		if ms, err := e.run(t.Context(), c); err != nil || ms <= 0 {
			t.Errorf("%s: %v ms, %v", e.name, ms, err)
		}
	}
	if _, err := (netTest{"wrong", "sideways", 5}).run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("what the server does not know: %v", err)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
	if _, err := netTests[2].run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "connect: ") {
		t.Errorf("without a server: %v", err)
	}
}

// Without a valid time, the sample fails.
func TestNetTestWithoutOutput(t *testing.T) {
	for _, said := range []string{"", "soon\n", "-1\n"} {
		if ms, err := netTests[0].run(t.Context(), scriptedClient(said)); err == nil {
			t.Errorf("%q became %v ms", said, ms)
		}
	}
}

type scriptedClient string

func (s scriptedClient) perl(context.Context, string, ...string) ([]byte, error) {
	return []byte(s), nil
}
func (scriptedClient) server() (string, int) { return "", 0 }

// close ends idle connections, those with invalid requests, and those whose client is gone.
func TestNetServerClose(t *testing.T) {
	s := localServer(t)
	addr := s.listener.Addr().String()
	for _, line := range []string{"", "down -1\n", "down x\n", "up 99999999999999999\n", "down 1000000000\n"} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
	if err := (*netServer)(nil).close(); err != nil {
		t.Error(err)
	}
}

// The machine with which boxes are compared differs only in the other end of its network card.
func TestOnUserNetwork(t *testing.T) {
	argv := []string{"-m", "1", "-netdev", "socket,id=net,fd=6", "-device", "virtio-net-device,netdev=net,mac=x"}
	got := onUserNetwork(argv)
	want := slices.Clone(argv)
	want[3] = "user,id=net,ipv6=off,net=198.18.0.0/24,host=198.18.0.1,dns=198.18.0.3"
	if !slices.Equal(got, want) || argv[3] != "socket,id=net,fd=6" {
		t.Errorf("%q", got)
	}
}

func TestPeerName(t *testing.T) {
	if peerName(agentbox.GVisor) != "peer/runsc-net" || peerName(agentbox.MicroVM) != "peer/qemu-user" {
		t.Error("a kind is compared with the other's peer")
	}
}

func TestWireIsRemoved(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes network namespaces")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("ip is not installed")
	}
	w := newVethPair()
	if err := w.make(t.Context()); err != nil {
		_ = w.remove(t.Context())
		t.Skipf("no network namespaces here: %v", err)
	}
	l, err := w.listen()
	if err != nil {
		t.Error(err)
	} else {
		l.Close()
	}
	if err := sweepVethPairs(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(w.path(w.guest)); err != nil {
		t.Errorf("the namespaces of a running process were removed: %v", err)
	}
	for range 2 {
		if err := w.remove(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(w.path(w.guest)); err == nil {
		t.Error("a namespace is left")
	}
}

// The namespaces of a process that was killed are removed by the next one.
func TestKilledWireIsRemoved(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes network namespaces")
	}
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Skip(err)
	}
	name := vethPrefix + strconv.Itoa(cmd.Process.Pid) + "-guest"
	if err := ip(t.Context(), "netns add "+name); err != nil {
		t.Skipf("no network namespaces here: %v", err)
	}
	if err := sweepVethPairs(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(vethPair{}.path(name)); err == nil {
		t.Error("a namespace is left")
	}
}
