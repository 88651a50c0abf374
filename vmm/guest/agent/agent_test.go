//go:build linux

package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/vmm/guest"
	"agentbox/vmm/guest/protocol"
)

// File server and containers are the test's own program under another name, as they are the agent's.
func TestMain(m *testing.M) {
	if serve := map[string]func() error{SFTPName: ServeSFTP, WatchName: ServeWatch, ContainerName: EnterContainer}[os.Args[0]]; serve != nil {
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fixture is an agent that serves in this process, as the user who runs the test.
type fixture struct {
	t      *testing.T
	agent  *Agent
	stream net.Conn // the host's end

	mu    sync.Mutex
	steps []string         // what was done to the machine
	fail  map[string]error // what shall fail
}

// fixture is what the host connects to: a machine without processes.
func (f *fixture) Stream() net.Conn { return f.stream }
func (f *fixture) PIDs() []int      { return nil }

func (f *fixture) step(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.steps = append(f.steps, name)
	return f.fail[name]
}

func (f *fixture) machine(dir string, u User) Machine {
	return Machine{
		Kernel:       "test",
		AddEntropy:   func([]byte) error { return f.step("entropy") },
		SetClock:     func(time.Time) error { return f.step("clock") },
		SetHostname:  func(string) error { return f.step("hostname") },
		SetMachineID: func(string) error { return f.step("machine-id") },
		NameServices: func(names []string) error { return f.step(strings.Join(names, " ")) },
		FreezeUser:   func() error { return f.step("freeze") },
		ThawUser:     func() error { return f.step("thaw") },
		TermUser:     func(time.Duration) { f.step("term") },
		KillUser:     func() { f.step("kill") },
		Cgroup:       func(string) (*os.File, func(), error) { return nil, func() {}, nil },
		LimitUser:    func(int) error { return f.step("limit") },
		LookupUser: func(name string) (User, error) {
			if name == "nobody-here" {
				return User{}, fs.ErrNotExist
			}
			other := u
			other.Name, other.Home = name, dir
			return other, nil
		},
		Trust: func(ca protocol.Authority) (map[string]string, error) {
			a, err := findAuthorities(dir)
			if err != nil {
				return nil, err
			}
			return a.trust(ca)
		},
		Mount:      func() error { return f.step("mount") },
		Unmount:    func() error { return f.step("unmount") },
		DropCaches: func() error { return f.step("drop caches") },
		DropSlots:  func() error { return f.step("drop slots") },
		Sync:       func() { f.step("sync") },
		Stats:      func() (protocol.GuestStats, error) { return protocol.GuestStats{MemoryTotal: 42}, nil },
		Workspace:  dir,
		LogDir:     dir + "/log",
		Roots:      dir + "/roots",
		FirstStart: dir + "/first-start",
	}
}

func currentUser(t *testing.T) User {
	return User{Name: "tester", UID: os.Getuid(), GID: os.Getgid(), Home: t.TempDir(), Shell: "/bin/sh"}
}

// start runs an agent until the test ends, and checks that it leaves nothing running.
func start(t *testing.T) *fixture {
	t.Helper()
	host, guestEnd := net.Pipe()
	f := &fixture{t: t, stream: host, fail: map[string]error{}}
	u := currentUser(t)
	opened := false
	f.agent = New(Config{
		Machine: f.machine(t.TempDir(), u), User: u, Log: slog.New(slog.DiscardHandler),
		Open: func(ctx context.Context) (io.ReadWriteCloser, error) {
			if opened {
				return nil, io.EOF
			}
			opened = true
			return guestEnd, nil
		},
	})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- f.agent.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		host.Close()
		select {
		case <-served:
		case <-time.After(5 * time.Minute):
			t.Error("the agent does not end")
		}
	})
	return f
}

// connect begins a life.
func (f *fixture) connect() *guest.Client {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 5*time.Minute)
	defer cancel()
	c, err := guest.Greet(ctx, f, guest.NewHello("box"))
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

func (f *fixture) session(c *guest.Client) *ssh.Session {
	f.t.Helper()
	s, err := c.SSH().NewSession()
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// output runs a line of shell and wants it to succeed.
func (f *fixture) output(c *guest.Client, line string) string {
	f.t.Helper()
	out, err := f.session(c).CombinedOutput(line)
	if err != nil {
		f.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

func TestHelloSteps(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	if got := strings.Join(f.steps, " "); got != "freeze entropy clock hostname machine-id thaw" {
		t.Errorf("steps: %s", got)
	}
	if c.Kernel() != "test" {
		t.Errorf("kernel %q", c.Kernel())
	}
}

func TestFailedStepFailsHello(t *testing.T) {
	f := start(t)
	f.fail["entropy"] = errors.New("no generator")
	_, err := guest.Greet(t.Context(), f, guest.NewHello("box"))
	if err == nil || !strings.Contains(err.Error(), "reseed random numbers: no generator") {
		t.Fatalf("err %v", err)
	}
	for _, s := range f.steps {
		if s == "thaw" {
			t.Error("user processes were let go")
		}
	}
}

// The random numbers are reseeded before Ready; what comes later refuses the login.
func TestFailedRenewalRefusesLogin(t *testing.T) {
	for step, reason := range map[string]string{"clock": "set the clock: broken", "machine-id": "set the machine id: broken", "thaw": "continue user processes: broken"} {
		f := start(t)
		f.fail[step] = errors.New("broken")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		_, err := guest.Greet(ctx, f, guest.NewHello("box"))
		if err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s failed: %v", step, err)
		}
	}
}

func TestBadHello(t *testing.T) {
	f := start(t)
	hello := guest.NewHello("a box")
	_, err := guest.Greet(t.Context(), f, hello)
	if err == nil || !strings.Contains(err.Error(), "hostname") {
		t.Fatalf("err %v", err)
	}
	f.connect().Close() // and the agent goes on
}

func TestCommandsSurviveNewLife(t *testing.T) {
	f := start(t)
	first := f.connect()
	dir := t.TempDir()
	s := f.session(first)
	in, err := s.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	// It floods its output, which nobody will read, and reads its input, which must not end.
	if err := s.Start("cd " + dir + "; echo $$ > pid; yes & while ! [ -e stop ]; do sleep 0.02; done; kill $!; wait; echo done > done"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { b, _ := os.ReadFile(dir + "/pid"); return len(b) > 0 })
	first.Close()
	second := f.connect()
	defer second.Close()
	if got := f.output(second, "kill -0 $(cat "+dir+"/pid) && echo alive"); got != "alive\n" {
		t.Fatalf("the command of the first life: %q", got)
	}
	f.output(second, "touch "+dir+"/stop")
	waitFor(t, func() bool { _, err := os.Stat(dir + "/done"); return err == nil })
}

func TestManyLives(t *testing.T) {
	f := start(t)
	for i := range 20 {
		c := f.connect()
		if got := f.output(c, fmt.Sprintf("echo %d", i)); got != fmt.Sprintf("%d\n", i) {
			t.Fatalf("life %d: %q", i, got)
		}
		if i%2 == 0 {
			f.session(c).Start("head -c 1000000 /dev/zero; sleep 0.1") // a torn life
		}
		c.Close()
	}
}

func TestAttachDirectoryAndEnvironment(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	req := protocol.AttachRequest{Workspace: true, Hostname: "other", Env: map[string]string{"A": "box", "B": "box"}}
	if err := c.Attach(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	s := f.session(c)
	s.Setenv("B", "session")
	out, err := s.CombinedOutput("pwd; echo $A $B $AGENTBOX $LANG; echo $HOME")
	u := f.agent.User
	if want := f.agent.Machine.Workspace + "\nbox session 1 C.UTF-8\n" + u.Home + "\n"; string(out) != want || err != nil {
		t.Errorf("got %q, want %q (%v)", out, want, err)
	}
	if err := c.Detach(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(f.steps[6:], " "); got != "hostname limit mount term kill sync unmount" {
		t.Errorf("steps: %s", got)
	}
}

// A guest that is told in its Hello becomes the box before anybody can log in.
func TestAttachInHello(t *testing.T) {
	f := start(t)
	hello := guest.NewHello("box")
	hello.Attach = json.RawMessage(`{"workspace": true, "env": {"A": "of the box"}}`)
	c, err := guest.Greet(t.Context(), f, hello)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if out := f.output(c, "echo $A"); out != "of the box\n" {
		t.Errorf("the command says %q", out)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains(f.steps, "mount") {
		t.Errorf("steps: %v", f.steps)
	}
}

func TestFailedAttachInHello(t *testing.T) {
	for attach, reason := range map[string]string{
		`{"workspace": true}`:     "attach: mount the workspace: broken",
		`{"user": "nobody-here"}`: "attach: user nobody-here: file does not exist",
		`{"env": 1}`:              "attach: malformed request",
	} {
		f := start(t)
		f.fail["mount"] = errors.New("broken")
		hello := guest.NewHello("box")
		hello.Attach = json.RawMessage(attach)
		_, err := guest.Greet(t.Context(), f, hello)
		if refused := (*guest.Refused)(nil); !errors.As(err, &refused) || !strings.HasPrefix(refused.Reason, reason) {
			t.Errorf("%s: %v", attach, err)
		}
	}
}

func TestFailedRequest(t *testing.T) {
	f := start(t)
	f.fail["mount"] = errors.New("no disk\nat all")
	c := f.connect()
	defer c.Close()
	err := c.Attach(t.Context(), protocol.AttachRequest{Workspace: true})
	if err == nil || err.Error() != "the guest failed to attach: mount the workspace: no disk at all" {
		t.Errorf("err %v", err)
	}
	if s, err := c.Stats(t.Context()); err != nil || s.MemoryTotal != 42 {
		t.Errorf("stats %+v, %v", s, err)
	}
}

func TestQuiesceLeavesUserFrozen(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	if err := c.Quiesce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(f.steps[6:], " "); got != "drop caches hostname machine-id freeze drop slots" {
		t.Errorf("steps: %s", got)
	}
}

func TestGoRecover(t *testing.T) {
	f := start(t)
	var log bytes.Buffer
	f.agent.Log = slog.New(slog.NewTextHandler(&log, nil))
	f.agent.goRecover("test", func() { list := []int{}; list[len(list)]++ })
	waitFor(t, func() bool { f.connect().Close(); return true })
	f.connect().Close()
}

func waitFor(t *testing.T, what func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !what(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it never happened")
		}
	}
}
