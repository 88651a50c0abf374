package host

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/vmm"
	"agentbox/vmm/image"
	"agentbox/vmm/vmmtest"
)

// holdEnv makes the test binary a process that holds the lock it names until its input ends.
const holdEnv = "AGENTBOX_TEST_HOLD"

func TestMain(m *testing.M) {
	if path := os.Getenv(holdEnv); path != "" {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err == nil {
			err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		}
		fmt.Println(err)
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// hold has a child hold a lock, as a supervisor does, and write says what is in the file. let ends the child; ended is
// closed when it has ended.
func hold(t *testing.T, lock string, write func(pid int) string) (pid int, let func(), ended <-chan struct{}) {
	t.Helper()
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holdEnv+"="+lock, "GORACE=atexit_sleep_ms=0")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || line != "<nil>\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	if err := os.WriteFile(lock, []byte(write(cmd.Process.Pid)), 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		stdin.Close()
		<-done
	})
	return cmd.Process.Pid, func() { stdin.Close() }, done
}

func itself(pid int) string { return fmt.Sprintln(pid) }

func within(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Fatalf("%s takes for ever", what)
	}
}

// newHome makes an empty home; its path is short enough for sockets.
func newHome(t *testing.T) home.Home {
	t.Helper()
	dir, err := os.MkdirTemp("", "abx")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv(home.EnvDir, dir)
	h := home.Home{Dir: dir}
	if err := h.Create(); err != nil {
		t.Fatal(err)
	}
	return h
}

// manage makes a Manager of a home with a fake driver, and closes it with the test.
func manage(t *testing.T, h home.Home) *Manager {
	t.Helper()
	images, err := image.Open(t.Context(), h.Images())
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(Config{
		Home: h, Binary: os.Args[0], Images: images, Log: slog.New(slog.DiscardHandler),
		Driver: func(agentbox.Isolation) (vmm.Driver, error) { return &vmmtest.Fake{}, nil },
		Kernel: func(context.Context, string, agentbox.Progress) (string, error) { return "kernel", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// aBox is a record like those of real boxes.
func aBox(name string) record {
	id := agentbox.NewBoxID()
	return record{
		Phase: phaseReady, Key: "key of " + name, Life: 1, Workspace: 1, ImageFile: "/image", Kernel: "/kernel", User: "agent", SetUp: true,
		Attach: attachment{Env: map[string]string{"A": "b"}, Ports: []api.ConfiguredPort{{Box: 80}}},
		Box: agentbox.Box{
			ID: id, Name: name, Isolation: agentbox.MicroVM, Branch: "main", Lifetime: agentbox.LifetimeBranch, CPUs: 2, Memory: 1 << 30,
			Disk: 1 << 30, Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Lease: agentbox.Lease{Owner: "me"},
		},
	}
}

// write puts a box on disk as a daemon leaves it.
func write(t *testing.T, h home.Home, rec record) home.Box {
	t.Helper()
	m := &Manager{home: h}
	if err := m.makeDirs(rec); err != nil {
		t.Fatal(err)
	}
	if err := writeRecord(h, rec); err != nil {
		t.Fatal(err)
	}
	return rec.names(h)
}

func touch(t *testing.T, paths ...string) {
	t.Helper()
	for _, p := range paths {
		dir, isDir := strings.CutSuffix(p, "/")
		err := os.MkdirAll(dir, 0o700)
		if !isDir {
			err = os.Remove(p)
			if err == nil {
				err = os.WriteFile(p, nil, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
