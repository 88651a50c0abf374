//go:build linux

package agent

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/vmm/guest/protocol"
)

// A service of another image has that image's programs, users and files, what it mounts of the
// box, and nothing of the box's environment.
func TestServiceInItsOwnRoot(t *testing.T) {
	busybox, err := exec.LookPath("busybox")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("it needs root and a static busybox")
	}
	f := start(t)
	c := f.connect()
	defer c.Close()
	root := filepath.Join(f.agent.Machine.Roots, "db")
	program, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"bin/busybox": string(program), "etc/passwd": "root:x:0:0::/root:/bin/sh\nalice:x:77:78::/home/alice:/bin/sh\n", "etc/group": "data:x:99:\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"bin/sh": "/bin/busybox", "out": "/elsewhere"} { // links mean its own root
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	code, data := filepath.Join(t.TempDir(), "code"), t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(root, "elsewhere"), 0o755), os.Chmod(data, 0o777)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(code, []byte("of the repository\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const say = `busybox id; busybox pwd; busybox env; busybox cat /out/code; echo x >/out/code || echo read-only; echo kept >/data/f; busybox ls /dev/null /proc/self/exe`
	err = c.Attach(t.Context(), protocol.AttachRequest{Env: map[string]string{"OF_BOX": "1"}, Services: []protocol.Service{{
		Name: "db", Env: map[string]string{"A": "b"}, Container: &protocol.Container{
			Argv: []string{"sh", "-c", say + "; exec busybox sleep 1000"}, Ready: []string{"busybox", "test", "-e", "/data/f"}, User: "alice:data", Dir: "/srv", Names: []string{"db", "database"},
			Mounts: []protocol.Mount{{From: code, To: "/out/code", ReadOnly: true}, {From: data, To: "/data"}},
		}}, {
		Name: "once", Container: &protocol.Container{Argv: []string{"sh", "-c", "exit 1"}}}, // it has no root
	}})
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(f.agent.Machine.LogDir, name+".log"))
		return string(b)
	}
	waitFor(t, func() bool { return strings.Contains(read("db"), "/proc/self/exe") })
	want := "uid=77(alice) gid=99(data)\n/srv\n"
	if log := read("db"); !strings.HasPrefix(log, want) || !strings.Contains(log, "\nA=b\n") || !strings.Contains(log, "\nHOME=/home/alice\n") || strings.Contains(log, "OF_BOX") ||
		!strings.Contains(log, "of the repository\n") || !strings.Contains(log, "read-only\n") {
		t.Errorf("%s", log)
	}
	if entries, err := os.ReadDir(filepath.Join(root, "elsewhere")); err != nil || len(entries) != 1 {
		t.Errorf("the mount is not where its link leads: %v, %v", entries, err)
	}
	waitFor(t, func() bool { return strings.Contains(read("once"), "no such file or directory") })
}

// A container whose work is done is ready, and not started again.
func TestContainerThatCompletes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root")
	}
	f := start(t)
	c := f.connect()
	defer c.Close()
	root, runs := filepath.Join(f.agent.Machine.Roots, "init"), t.TempDir()
	program, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Skip("it needs a static busybox")
	}
	if err := os.MkdirAll(filepath.Join(root, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "bin/busybox"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	run := `test -e /go || exit 3; echo ran >>/runs/all`
	err = c.Attach(t.Context(), protocol.AttachRequest{Services: []protocol.Service{
		{Name: "init", Container: &protocol.Container{Argv: []string{"busybox", "sh", "-c", run}, Completes: true, Mounts: []protocol.Mount{{From: runs, To: "/runs"}}}},
		{Name: "after", Run: "sleep 1000"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return states(t, c) == "init=failed after=waiting" })
	if err := os.WriteFile(filepath.Join(root, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return states(t, c) == "init=ready after=ready" })
	if all, err := os.ReadFile(filepath.Join(runs, "all")); err != nil || string(all) != "ran\n" {
		t.Errorf("%q, %v", all, err)
	}
}

func TestNamesOfServices(t *testing.T) {
	const hosts = "127.0.0.1\tlocalhost\n"
	with := addServices(hosts, []string{"db", "cache"})
	if want := hosts + "127.0.0.1\tdb cache # services of agentbox\n"; with != want || addServices(with, []string{"db", "cache"}) != want || addServices(with, nil) != hosts {
		t.Errorf("%q", with)
	}
}
