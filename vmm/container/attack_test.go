package container_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentbox/tools/suites/guesttest"
)

// The known ways out of a container are tried in one, by root and by the box's user. None leads to
// anything of this host.
func TestWaysOutAreClosed(t *testing.T) {
	h := realHarness(t)
	h.Spec.Name, h.Spec.Dir = "attacked", t.TempDir()
	h.Spec.Workspace = filepath.Join(t.TempDir(), "workspace")
	if err := h.Driver.NewWorkspace(t.Context(), h.Spec.Workspace, "", h.Spec.Disk); err != nil {
		t.Fatal(err)
	}
	m, err := h.Driver.Boot(t.Context(), h.Spec)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Kill()
	real, err := guesttest.Greet(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	g := &agentGuest{real}
	if err := g.Attach(t.Context()); err != nil {
		t.Fatal(err)
	}
	args := canaries(t)
	for _, user := range []string{"root", ""} {
		out, err := g.run(user, append([]string{"/attack", "all"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		tried := 0
		for line := range strings.Lines(out) {
			what, result, found := strings.Cut(strings.TrimSpace(line), "\t")
			if !found {
				t.Errorf("as %q: %q", user, line)
				continue
			}
			tried++
			if !strings.HasPrefix(result, "refused: ") {
				t.Errorf("as %q, %s: %s", user, what, result)
			}
			t.Logf("as %q, %s: %s", user, what, result)
		}
		if tried < 60 {
			t.Errorf("only %d ways were tried as %q", tried, user)
		}
	}
}

// canaries are a file, a process and two sockets of the host, and its namespaces, as the attacks take
// them.
func canaries(t *testing.T) []string {
	file := filepath.Join(t.TempDir(), "canary")
	process := exec.Command("sleep", "600")
	abstract := "agentbox-canary-" + strconv.Itoa(os.Getpid())
	tcp, err1 := net.Listen("tcp", "127.0.0.1:0")
	local, err2 := net.Listen("unix", "@"+abstract)
	for _, err := range []error{err1, err2, os.WriteFile(file, []byte("canary"), 0o644), process.Start()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		process.Process.Kill()
		process.Wait()
		tcp.Close()
		local.Close()
	})
	_, port, _ := net.SplitHostPort(tcp.Addr().String())
	var namespaces []string
	for _, kind := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"} {
		name, err := os.Readlink(fmt.Sprintf("/proc/self/ns/%s", kind))
		if err != nil {
			t.Fatal(err)
		}
		namespaces = append(namespaces, name)
	}
	vsock := "vsock"
	if fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0); err != nil {
		vsock = "no vsock"
	} else {
		unix.Close(fd)
	}
	return []string{file, strconv.Itoa(process.Process.Pid), port, abstract, strings.Join(namespaces, " "), vsock}
}
