package supervisor

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentbox/agentbox"
	"agentbox/agentbox/place"
	"agentbox/policy"
	"agentbox/policy/gateway"
	"agentbox/policy/secrets"
	"agentbox/vmm/netstack"
)

func newTestGuard(t *testing.T) (*guard, *gate, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "audit")
	m := newMeter(func() time.Duration { return 0 }, func(agentbox.Limit) {})
	g := newGuard(Config{Box: agentbox.NewBoxID(), Note: "test"}, dir, m, slog.New(slog.DiscardHandler))
	ca, err := gateway.NewCA("box")
	if err != nil {
		t.Fatal(err)
	}
	b := newTestAccounting(t, filepath.Join(t.TempDir(), "account.json"))
	gt := newGate(ca, g, m, b, nil, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { gt.close(); g.close() })
	return g, gt, dir
}

func inForce(t *testing.T, rules ...string) place.Policy {
	t.Helper()
	l := policy.Layer{Source: policy.User}
	for _, s := range rules {
		r, err := policy.ParseRule(s)
		if err != nil {
			t.Fatal(err)
		}
		l.Private = append(l.Private, r)
	}
	return place.Policy{Spec: policy.Spec{Preset: "strict", Layers: []policy.Layer{l}}}
}

// A machine of the pool is no box: nothing leaves it, and it has no log.
func TestNoPolicyDeniesAll(t *testing.T) {
	_, gate, dir := newTestGuard(t)
	d := netstack.Destination{Proto: "tcp", Name: "a.example", Addr: netip.MustParseAddrPort("198.18.0.9:443")}
	if gate.Lookup(t.Context(), netstack.Question{Name: "a.example", Type: 1}) == nil || gate.Accept(t.Context(), d) == nil {
		t.Error("a box without a policy reaches something")
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the log: %v", err)
	}
}

// served is a connection of the box to a server of this machine, under a policy that allows it;
// over is closed when it has ended.
func served(t *testing.T, g *guard, gate *gate) (d netstack.Destination, over <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); _, _ = c.Write([]byte("hello")); _, _ = c.Read(make([]byte, 1)) }()
		}
	}()
	d = netstack.Destination{Proto: "tcp", Addr: netip.MustParseAddrPort(l.Addr().String())}
	if err := g.enforce(t.Context(), inForce(t, "127.0.0.1:*")); err != nil {
		t.Fatal(err)
	}
	if err := gate.Accept(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	box, stack := pipe(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = gate.Stream(t.Context(), d, stack)
		_ = stack.Close()
	}()
	got := make([]byte, 5)
	if _, err := box.Read(got); err != nil || string(got) != "hello" {
		t.Fatalf("%q, %v", got, err)
	}
	return d, done
}

func TestPolicyChangeEndsDeniedFlows(t *testing.T) {
	g, gate, dir := newTestGuard(t)
	d, over := served(t, g, gate)
	if err := g.enforce(t.Context(), inForce(t)); err != nil {
		t.Fatal(err)
	}
	<-over
	if err := gate.Accept(t.Context(), d); err == nil {
		t.Error("another connection is accepted")
	}
	gate.close()
	var log []string
	if err := policy.Read(dir, func(e policy.Entry) error { log = append(log, e.Kind); return nil }); err != nil {
		t.Fatal(err)
	}
	if s := strings.Join(log, " "); !strings.HasPrefix(s, "start policy ") || strings.Count(s, "policy ") < 2 {
		t.Errorf("the log holds %s", s)
	}
	if _, err := policy.Verify(dir); err != nil {
		t.Error(err)
	}
}

// The disk is full when the box tries something: what it had open ends, and it gets nothing more,
// whatever policy comes.
func TestUnwritableLogCutsNetwork(t *testing.T) {
	g, gate, dir := newTestGuard(t)
	d, over := served(t, g, gate)
	fillDisk(t, filepath.Join(dir, "log.jsonl"))
	if err := gate.Accept(t.Context(), netstack.Destination{Proto: "tcp", Addr: netip.MustParseAddrPort("10.0.0.1:80")}); err == nil {
		t.Error("what the policy denies is accepted")
	}
	<-over
	if err := gate.Accept(t.Context(), d); err == nil {
		t.Error("what the policy allowed is accepted")
	}
	if gate.Lookup(t.Context(), netstack.Question{Name: "a.example", Type: 1}) == nil {
		t.Error("a name is looked up")
	}
	for what, rules := range map[string][]string{"the same": {"127.0.0.1:*"}, "another": {"127.0.0.1:*", "a.example"}} {
		if err := g.enforce(t.Context(), inForce(t, rules...)); err == nil {
			t.Errorf("%s policy is put in force", what)
		}
		if err := gate.Accept(t.Context(), d); err == nil {
			t.Errorf("what %s policy allows is accepted", what)
		}
	}
}

// The disk is full when another policy comes: what was allowed may be what is taken back, so
// nothing is.
func TestUnloggedPolicyChangeCutsNetwork(t *testing.T) {
	g, gate, dir := newTestGuard(t)
	d, over := served(t, g, gate)
	fillDisk(t, filepath.Join(dir, "log.jsonl"))
	if err := g.enforce(t.Context(), inForce(t)); agentbox.CodeOf(err) != agentbox.NoSpace {
		t.Fatal(err)
	}
	if err := gate.Accept(t.Context(), d); err == nil || !g.failed.Load() {
		t.Fatalf("what the policy allowed is accepted; failed: %v", g.failed.Load())
	}
	<-over
}

// fillDisk makes writes to a file that this process has open fail as on a disk that is full.
func fillDisk(t *testing.T, path string) {
	t.Helper()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err != nil || to != path {
			continue
		}
		n, err := strconv.Atoi(fd.Name())
		if err == nil {
			err = unix.Dup3(int(full.Fd()), n, unix.O_CLOEXEC)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("%s is not open", path)
}

// pipe is a TCP connection: both ends half-close.
func pipe(t *testing.T) (box net.Conn, stack netstack.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	box, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { box.Close(); c.Close() })
	return box, c.(*net.TCPConn)
}

func TestNetworkLimits(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	var g *guard
	m := newMeter(func() time.Duration { return 0 }, func(which agentbox.Limit) { g.record(policy.Entry{Kind: policy.KindLimit, Reason: which.String()}) })
	g = newGuard(Config{Box: agentbox.NewBoxID()}, dir, m, slog.New(slog.DiscardHandler))
	m.limit(place.Limits{Bytes: 10})
	if err := g.enforce(t.Context(), inForce(t)); err != nil {
		t.Fatal(err)
	}
	b := newTestAccounting(t, filepath.Join(t.TempDir(), "account.json"))
	box, stack := pipe(t)
	c := meteredStream{metered{stack, m, b}, stack}
	if _, err := c.Write([]byte("12345678")); err != nil {
		t.Error(err)
	}
	if _, err := c.Write([]byte("123")); err == nil {
		t.Error("more than ten bytes are written")
	}
	if _, err := box.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); err == nil || n != 0 {
		t.Error("more than ten bytes are read")
	}
	g.close()
	var limits []string
	if err := policy.Read(dir, func(e policy.Entry) error {
		if e.Kind == policy.KindLimit {
			limits = append(limits, e.Reason)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(limits) != 1 || limits[0] != "bytes 10" {
		t.Errorf("the log says %q", limits)
	}
}

// A box can have many connections accepted before the first of them is carried.
func TestConcurrentConnectionLimit(t *testing.T) {
	g, gate, _ := newTestGuard(t)
	d, over := served(t, g, gate)
	g.meter.limit(place.Limits{Connections: 1})
	if err := g.enforce(t.Context(), inForce(t, "127.0.0.1:*")); err != nil {
		t.Fatal(err)
	}
	_, stack := pipe(t)
	stack.Close() // so that one that is carried ends at once
	if err := gate.Stream(t.Context(), d, stack); !errors.Is(err, errLimit) {
		t.Errorf("a second connection ended with %v", err)
	}
	if err := gate.Packets(t.Context(), d, stack); !errors.Is(err, errLimit) {
		t.Errorf("a flow of packets ended with %v", err)
	}
	gate.close()
	<-over
}

func TestSecretSources(t *testing.T) {
	g, _, _ := newTestGuard(t)
	req := inForce(t)
	req.Secrets = map[string]secrets.Source{"T": {From: secrets.Reference{Kind: secrets.Env, Target: "V"}}}
	req.Env = map[string]string{"V": "value"}
	if err := g.enforce(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if v, err := g.resolver.Value(t.Context(), "T"); v != "value" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	if err := g.enforce(t.Context(), inForce(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := g.resolver.Value(t.Context(), "T"); err == nil {
		t.Error("a secret that was taken back still has a value")
	}
}
