package gvisor_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/tools/suites/vmmtest"
	"agentbox/vmm"
	"agentbox/vmm/guest/protocol"
	"agentbox/vmm/gvisor"
	"agentbox/vmm/image/rootfs"
)

func inDir(t *testing.T, s vmm.Spec) vmm.Spec {
	s.Name, s.Dir = "test", t.TempDir()
	return s
}

// ok is for calls that give a value and an error.
func ok[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return v
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func greet(t *testing.T, m vmm.Machine) *agentGuest {
	t.Helper()
	g, err := connect(t.Context(), m)
	if err != nil {
		t.Fatalf("%v (the machine: %v)", err, m.Err())
	}
	return g.(*agentGuest)
}

// said runs the probe in the guest.
func said(t *testing.T, g *agentGuest, args ...string) string {
	t.Helper()
	out, err := g.probe("", args...)
	must(t, err)
	return out
}

func TestBoxSurvivesHostileUser(t *testing.T) {
	h := realHarness(t)
	m := ok(h.Driver.Boot(t.Context(), inDir(t, h.Spec)))(t)
	defer m.Kill()
	g := greet(t, m)
	must(t, g.Client.Attach(t.Context(), protocol.AttachRequest{PIDs: 60}))
	said(t, g, "hog") // takes memory until it dies
	s := ok(g.Stats(t.Context()))(t)
	if s.OOMKills == 0 || s.MemoryTotal != h.Spec.Memory || s.RuntimeFree > h.Spec.Disk {
		t.Errorf("after a process that took all memory: %+v", s)
	}
	if out := said(t, g, "forks"); !strings.Contains(out, "temporarily unavailable") {
		t.Errorf("a process that forked without end: %q", out)
	}
	if s := ok(g.Stats(t.Context()))(t); s.Processes < 10 || s.Processes > 60 {
		t.Errorf("after it: %+v", s)
	}
	must(t, g.Detach(t.Context()))
	if s := ok(g.Stats(t.Context()))(t); s.Processes != 0 {
		t.Errorf("after detach: %+v", s)
	}
}

// Two machines that are restored from one state, and two that booted.
func TestClonesDiffer(t *testing.T) {
	h := realHarness(t)
	d, saved := h.Driver.(*gvisor.Driver), vmmtest.SaveMachine(t, h)
	seen := map[string]bool{}
	for i, name := range []string{"one", "two", "three", "four"} {
		spec := inDir(t, h.Spec)
		spec.Workspace = filepath.Join(t.TempDir(), "workspace")
		must(t, d.NewWorkspace(t.Context(), spec.Workspace, "", spec.Disk))
		start := func() (vmm.Machine, error) { return d.Restore(t.Context(), spec, nil, saved) }
		if i >= 2 {
			start = func() (vmm.Machine, error) { return d.Boot(t.Context(), spec) }
		}
		m := ok(start())(t)
		defer m.Kill()
		g := greet(t, m)
		must(t, g.Client.Attach(t.Context(), protocol.AttachRequest{Workspace: true, Hostname: name}))
		f := strings.Fields(said(t, g, "facts"))
		if len(f) != 5 || f[0] != "1000" || f[1] != name || f[3] != protocol.WorkspaceDir {
			t.Fatalf("clone %s: %s", name, f)
		}
		if now := ok(strconv.ParseInt(f[4], 10, 64))(t); time.Since(time.Unix(now, 0)).Abs() > time.Minute {
			t.Errorf("clone %s: its clock says %d", name, now)
		}
		for _, unique := range []string{said(t, g, "random"), f[2], said(t, g, "cat", "/proc/sys/kernel/random/boot_id")} {
			if seen[unique] || unique == "" {
				t.Errorf("clone %s: %q is not its own", name, unique)
			}
			seen[unique] = true
		}
	}
}

// What is written in the workspace, by the box's user or by its root, is the caller's when the
// machine has ended.
func TestWorkspaceBelongsToCaller(t *testing.T) {
	h := realHarness(t)
	d := h.Driver.(*gvisor.Driver)
	tree := t.TempDir()
	must(t, os.WriteFile(filepath.Join(tree, "given"), []byte("x"), 0o640))
	spec := inDir(t, h.Spec)
	spec.Workspace = filepath.Join(t.TempDir(), "workspace")
	must(t, d.NewWorkspace(t.Context(), spec.Workspace, tree, spec.Disk))
	m := ok(d.Boot(t.Context(), spec))(t)
	defer m.Kill()
	g := greet(t, m)
	must(t, g.Client.Attach(t.Context(), protocol.AttachRequest{Workspace: true}))
	if owner := said(t, g, "owner", protocol.WorkspaceDir+"/given"); owner != "1000" {
		t.Errorf("inside, the file belongs to %s", owner)
	}
	must(t, g.Put(t.Context(), vmmtest.Workspace, "made", []byte("y")))
	if out := ok(g.probe("root", "mkdir", protocol.WorkspaceDir+"/by-root"))(t); out != "" {
		t.Errorf("root makes a directory: %s", out)
	}
	must(t, m.Kill())
	for _, name := range []string{"given", "made", "by-root", "by-root/file"} {
		info := ok(os.Lstat(filepath.Join(spec.Workspace, name)))(t)
		if uid := info.Sys().(*syscall.Stat_t).Uid; int(uid) != os.Geteuid() {
			t.Errorf("%s belongs to %d on the host", name, uid)
		}
	}
	must(t, os.RemoveAll(spec.Workspace))
}

func TestDiskLimit(t *testing.T) {
	h := realHarness(t)
	spec := inDir(t, h.Spec)
	spec.Disk = 64 << 20
	m := ok(h.Driver.Boot(t.Context(), spec))(t)
	defer m.Kill()
	g := greet(t, m)
	err := g.Put(t.Context(), vmmtest.Runtime, "big", make([]byte, 80<<20))
	if err == nil {
		t.Error("the runtime layer grew beyond its limit")
	}
	must(t, g.Put(t.Context(), vmmtest.Runtime, "big", nil)) // and has room again
	tree := t.TempDir()
	must(t, os.WriteFile(filepath.Join(tree, "big"), nil, 0o600))
	must(t, os.Truncate(filepath.Join(tree, "big"), 65<<20))
	path := filepath.Join(t.TempDir(), "workspace")
	if err := h.Driver.NewWorkspace(context.Background(), path, tree, spec.Disk); agentbox.CodeOf(err) != agentbox.NoSpace {
		t.Errorf("a workspace beyond its limit: %v", err)
	}
}

// capability is cap_net_raw+ep as Linux stores it, and access the list user::rw, user:1000:r.
const (
	capability = "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	access     = "\x02\x00\x00\x00" + "\x01\x00\x06\x00\xff\xff\xff\xff" + "\x02\x00\x04\x00\xe8\x03\x00\x00" +
		"\x04\x00\x00\x00\xff\xff\xff\xff" + "\x10\x00\x04\x00\xff\xff\xff\xff" + "\x20\x00\x00\x00\xff\xff\xff\xff"
)

// putAttributed puts a directory and files with extended attributes into an image.
func putAttributed(tree *rootfs.Tree) error {
	file := func(mode uint32, attrs map[string]string) *rootfs.Inode {
		return &rootfs.Inode{Mode: rootfs.TypeRegular | mode, Size: 4, Content: rootfs.Bytes("read"), Xattrs: attrs}
	}
	return errors.Join(
		tree.Put("attributed", &rootfs.Inode{Mode: rootfs.TypeDir | 0o755, Xattrs: map[string]string{"user.note": "a directory's"}}),
		tree.Put("attributed/program", file(0o755, map[string]string{"security.capability": capability, "user.note": "a file's"})),
		tree.Put("attributed/listed", file(0o640, map[string]string{"system.posix_acl_access": access})),
		tree.Put("attributed/closed", file(0o640, nil)),
	)
}

// Extended attributes of the image are there and count. gVisor's own erofs refuses files that have
// some (tools/runsc/patches).
func TestImageHasExtendedAttributes(t *testing.T) {
	h := realHarness(t)
	m := ok(h.Driver.Boot(t.Context(), inDir(t, h.Spec)))(t)
	defer m.Kill()
	g := greet(t, m)
	for _, c := range []struct{ name, attribute, want string }{
		{"", "user.note", `"a directory's"`}, {"/program", "user.note", `"a file's"`},
		{"/program", "security.capability", strconv.Quote(capability)}, {"/program", "user.other", syscall.ENODATA.Error()},
	} {
		if got := said(t, g, "attribute", "/attributed"+c.name, c.attribute); got != c.want {
			t.Errorf("%s of attributed%s is %s, want %s", c.attribute, c.name, got, c.want)
		}
	}
	for name, want := range map[string]string{"/program": "read", "/listed": "read", "/closed": ""} {
		if got := said(t, g, "cat", "/attributed"+name); got != want {
			t.Errorf("attributed%s has %q for the box's user, want %q", name, got, want)
		}
	}
}
