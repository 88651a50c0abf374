//go:build linux

package agent

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/vmm/guest"
	"agentbox/vmm/guest/protocol"
)

func states(t *testing.T, c *guest.Client) string {
	t.Helper()
	list, err := c.Services(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, s := range list {
		all = append(all, s.Name+"="+string(s.State))
	}
	return strings.Join(all, " ")
}

func TestServicesStartInOrder(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	dir := t.TempDir()
	err := c.Attach(t.Context(), protocol.AttachRequest{Workspace: true, Services: []protocol.Service{
		{Name: "first", Run: "echo hello $X; sleep 1000", Ready: "test -e " + dir + "/go", Env: map[string]string{"X": "world"}},
		{Name: "second", Run: "sleep 1000"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return states(t, c) == "first=starting second=waiting" })
	if err := os.WriteFile(dir+"/go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return states(t, c) == "first=ready second=ready" })
	log := filepath.Join(f.agent.Machine.LogDir, "first.log")
	waitFor(t, func() bool { b, _ := os.ReadFile(log); return string(b) == "hello world\n" })
	if err := c.Detach(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := states(t, c); got != "first=stopped second=stopped" {
		t.Errorf("after detach: %s", got)
	}
}

func TestServicePortReadiness(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	if err := c.Attach(t.Context(), protocol.AttachRequest{Services: []protocol.Service{{Name: "web", Run: "sleep 1000", Port: port}}}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return states(t, c) == "web=ready" })
}

// A command decides, also where nobody listens at the port; until somebody does, it runs seldom.
func TestServicePortAndCommand(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	dir := t.TempDir()
	err = c.Attach(t.Context(), protocol.AttachRequest{Workspace: true, Services: []protocol.Service{
		{Name: "elsewhere", Run: "sleep 1000", Ready: "true", Port: port},
		{Name: "refuses", Run: "sleep 1000", Ready: "echo x >>" + dir + "/checks; test -e " + dir + "/go", Port: port},
	}})
	if err != nil {
		t.Fatal(err)
	}
	checks := func() int { b, _ := os.ReadFile(dir + "/checks"); return strings.Count(string(b), "x") }
	waitFor(t, func() bool { return checks() == 1 })
	if got := states(t, c); got != "elsewhere=ready refuses=starting" {
		t.Errorf("%s", got)
	}
	if l, err = net.Listen("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.WriteFile(dir+"/go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return states(t, c) == "elsewhere=ready refuses=ready" })
}

func TestServiceRestart(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	if err := c.Attach(t.Context(), protocol.AttachRequest{Services: []protocol.Service{{Name: "bad", Run: "exit 3"}}}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		list, err := c.Services(t.Context())
		return err == nil && len(list) == 1 && list[0].Restarts > 0 && list[0].Error == "ended with status 3"
	})
}

// What a service started would hold the ports that its next start needs.
func TestServiceLeftoversAreKilled(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	pids := filepath.Join(t.TempDir(), "pids")
	run := "sleep 1000 & echo $! >> " + pids + "; exit 3"
	if err := c.Attach(t.Context(), protocol.AttachRequest{Services: []protocol.Service{{Name: "bad", Run: run}}}); err != nil {
		t.Fatal(err)
	}
	var children []string
	waitFor(t, func() bool {
		b, _ := os.ReadFile(pids)
		children = strings.Fields(string(b))
		return len(children) > 1
	})
	// A zombie has ended; here its parent is not the agent but whatever reaps orphans.
	stat, err := os.ReadFile("/proc/" + children[0] + "/stat")
	if err == nil && !strings.Contains(string(stat), ") Z ") {
		t.Errorf("the first child runs while the second start does: %s", stat)
	}
	if err := c.Detach(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestServiceRestartCount(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	starts := filepath.Join(t.TempDir(), "starts")
	if err := c.Attach(t.Context(), protocol.AttachRequest{Services: []protocol.Service{{Name: "bad", Run: "echo x >> " + starts + "; exit 3"}}}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return states(t, c) == "bad=failed" })
	if err := c.Detach(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, err := c.Services(t.Context())
	b, _ := os.ReadFile(starts)
	if started := strings.Count(string(b), "x"); err != nil || len(list) != 1 || list[0].Restarts != started-1 {
		t.Errorf("%d starts: %+v, %v", started, list, err)
	}
}
