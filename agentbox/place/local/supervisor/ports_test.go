package supervisor

import (
	"context"
	"errors"
	"net"
	"strconv"
	"testing"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/agentbox/environment"
)

func noGuest(context.Context) (*ssh.Client, error) { return nil, errors.New("no guest in this test") }

// freePort is a port nobody listens on now.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func TestPorts(t *testing.T) {
	p := newPorts(t.Context(), noGuest, environment.ForwardHooks{})
	defer p.closeAll()
	port := freePort(t)
	same := "127.0.0.1:" + strconv.Itoa(port)
	first, err := p.open(port, 0)
	if err != nil || first != (agentbox.Port{Box: port, Host: same}) {
		t.Fatalf("%+v, %v", first, err)
	}
	if again, err := p.open(port, 0); err != nil || again != first {
		t.Errorf("opened twice: %+v, %v", again, err)
	}
	moved, err := p.open(port, freePort(t))
	if err != nil || moved == first {
		t.Errorf("to another port of the host: %+v, %v", moved, err)
	}
	if again, err := p.open(port, 0); err != nil || again != moved {
		t.Errorf("to any after that: %+v, %v", again, err)
	}
	if back, err := p.open(port, port); err != nil || back != first {
		t.Errorf("and back: %+v, %v", back, err)
	}
	second, err := p.open(1, freePort(t))
	if err != nil {
		t.Fatal(err)
	}
	if got := p.list(); len(got) != 2 || got[0] != second || got[1] != first {
		t.Errorf("list: %+v", got)
	}
	if err := p.close(port); err != nil {
		t.Error(err)
	}
	if err := p.close(port); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("closed twice: %v", err)
	}
	p.closeAll()
	if got := p.list(); len(got) != 0 {
		t.Errorf("after closeAll: %+v", got)
	}
	for _, addr := range []string{same, second.Host} {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			t.Errorf("%s still answers", addr)
		}
	}
}

func TestTakenPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	number := taken.Addr().(*net.TCPAddr).Port
	p := newPorts(t.Context(), noGuest, environment.ForwardHooks{})
	defer p.closeAll()
	if _, err := p.open(80, number); agentbox.CodeOf(err) != agentbox.Exists {
		t.Errorf("asked for: %v", err)
	}
	if got, err := p.open(number, 0); err != nil || got.Host == taken.Addr().String() {
		t.Errorf("not asked for: %+v, %v", got, err)
	}
}

func TestInvalidPorts(t *testing.T) {
	p := newPorts(t.Context(), noGuest, environment.ForwardHooks{})
	for _, c := range [][2]int{{0, 0}, {-1, 0}, {65536, 0}, {80, -1}, {80, 65536}} {
		if _, err := p.open(c[0], c[1]); agentbox.CodeOf(err) != agentbox.Invalid {
			t.Errorf("%v: %v", c, err)
		}
	}
}
