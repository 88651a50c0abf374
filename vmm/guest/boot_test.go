package guest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/vmm"
	"agentbox/vmm/guest"
	"agentbox/vmm/guest/protocol"
	"agentbox/vmm/image/rootfs"
	"agentbox/vmm/kernel"
	"agentbox/vmm/qemu"
)

// rig boots real machines whose image holds the probe and nothing else.
type rig struct {
	*testing.T
	driver *qemu.Driver
	spec   vmm.Spec
}

func newRig(t *testing.T) *rig {
	if testing.Short() {
		t.Skip("starts real machines")
	}
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		t.Skip("QEMU is not installed")
	}
	agent, err := guest.Agent()
	if err != nil {
		t.Skipf("no guest agent: %v", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skipf("nowhere to keep a kernel: %v", err)
	}
	dir, err := kernel.Ensure(t.Context(), kernel.Config{Root: filepath.Join(cache, "agentbox-test", "kernels"), Agent: agent})
	if err != nil {
		t.Skipf("no guest kernel: %v", err)
	}
	r := &rig{T: t, driver: qemu.New(qemu.Config{StateDir: t.TempDir(), Kernel: func(context.Context) (string, error) { return dir, nil }})}
	r.spec = vmm.Spec{Name: "guest", Kernel: dir, Image: r.image(), CPUs: 2, Memory: 384 << 20, Disk: 8 << 30}
	return r
}

func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// image makes a root file system of the probe alone.
func (r *rig) image() string {
	probe := filepath.Join(r.TempDir(), "probe")
	build := exec.Command("go", "build", "-o", probe, "../../tools/e2e/probe")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		r.Fatalf("build probe: %v\n%s", err, out)
	}
	program, err := os.ReadFile(probe)
	r.ok(err)
	f, err := os.Create(filepath.Join(r.TempDir(), "image.erofs"))
	r.ok(err)
	defer f.Close()
	tree := rootfs.New(rootfs.DefaultLimits, time.Unix(0, 0))
	for _, dir := range []string{"etc", "root"} {
		r.ok(tree.Put(dir, &rootfs.Inode{Mode: 0o40755}))
	}
	r.ok(tree.Put("probe", &rootfs.Inode{Mode: 0o100755, Size: int64(len(program)), Content: rootfs.Bytes(program)}))
	r.ok(tree.Write(r.Context(), f, nil))
	return f.Name()
}

func (r *rig) next() vmm.Spec {
	spec := r.spec
	spec.Dir = r.TempDir()
	return spec
}

// greet begins a life of a machine, with its workspace if it is to attach.
func (r *rig) greet(m vmm.Machine, hostname string, attach bool) *guest.Client {
	r.Helper()
	hello := guest.NewHello(hostname)
	if attach {
		hello.Attach = json.RawMessage(`{"workspace": true}`)
	}
	c, err := guest.Greet(r.Context(), m, hello)
	r.ok(err)
	return c
}

// probe runs the probe and returns what it said and its exit status, -1 for a signal.
func (r *rig) probe(c *guest.Client, user string, args ...string) (string, int) {
	r.Helper()
	ch, requests, err := c.SSH().OpenChannel("session", nil)
	r.ok(err)
	defer ch.Close()
	payload, err := json.Marshal(protocol.ArgvRequest{Argv: append([]string{"/probe"}, args...), User: user})
	r.ok(err)
	if ok, err := ch.SendRequest(protocol.Argv, true, payload); !ok || err != nil {
		r.Fatalf("argv: %v %v", ok, err)
	}
	var out, errs bytes.Buffer
	done := make(chan struct{})
	go func() { io.Copy(&errs, ch.Stderr()); close(done) }()
	io.Copy(&out, ch)
	<-done
	status := -1
	for req := range requests {
		var v struct{ Status uint32 }
		if req.Type == "exit-status" && ssh.Unmarshal(req.Payload, &v) == nil {
			status = int(v.Status)
		}
	}
	return strings.TrimSpace(out.String() + errs.String()), status
}

// background starts the probe and does not wait for it.
func (r *rig) background(c *guest.Client, args ...string) {
	r.Helper()
	ch, requests, err := c.SSH().OpenChannel("session", nil)
	r.ok(err)
	go ssh.DiscardRequests(requests)
	payload, err := json.Marshal(protocol.ArgvRequest{Argv: append([]string{"/probe"}, args...)})
	r.ok(err)
	if ok, err := ch.SendRequest(protocol.Argv, true, payload); !ok || err != nil {
		r.Fatalf("argv: %v %v", ok, err)
	}
}

func TestBoxSurvivesHostileUser(t *testing.T) {
	r := newRig(t)
	m, err := r.driver.Boot(r.Context(), r.next())
	r.ok(err)
	defer m.Kill()
	c := r.greet(m, "box", false)
	defer func() { c.Close() }()
	r.ok(c.Attach(r.Context(), protocol.AttachRequest{PIDs: 60}))

	if out, status := r.probe(c, "", "hog"); status != -1 && status != 2 {
		t.Errorf("a process that took all memory: %q, %d", out, status)
	}
	s, err := c.Stats(r.Context())
	if err != nil || s.OOMKills == 0 {
		t.Errorf("after it: %+v, %v", s, err)
	}
	if out, status := r.probe(c, "", "forks"); status != 0 || !strings.Contains(out, "temporarily unavailable") {
		t.Errorf("a process that forked without end: %q, %d", out, status)
	}
	if s, err := c.Stats(r.Context()); err != nil || s.Processes < 10 || s.Processes > 60 {
		t.Errorf("after it: %+v, %v", s, err)
	}
	r.ok(c.Detach(r.Context()))
	if s, err := c.Stats(r.Context()); err != nil || s.Processes != 0 {
		t.Errorf("after detach: %+v, %v", s, err)
	}
	if out, status := r.probe(c, "", "random"); status != 0 {
		t.Errorf("a command after it: %q, %d", out, status)
	}

	r.background(c, "count")
	c.Close()
	c = r.greet(m, "again", false) // the counter goes on through another life
	first, second := r.count(c), r.count(c)
	if second == first {
		t.Errorf("the counter stopped at %d", first)
	}
	r.ok(c.Freeze(r.Context()))
	time.Sleep(3 * time.Second)
	r.ok(c.Thaw(r.Context()))
	if passed := r.count(c) - second; passed > 300 { // of 600
		t.Errorf("it counted %d while frozen", passed)
	}

	r.probe(c, "root", "shutdown")
	select {
	case <-m.Done():
		r.ok(m.Err())
	case <-time.After(5 * time.Minute):
		t.Error("the machine was not switched off")
	}
}

// count reads what the counter wrote last.
func (r *rig) count(c *guest.Client) int {
	r.Helper()
	var out string
	var status int
	for range 50 { // it may be about to write
		out, status = r.probe(c, "", "cat", "/tmp/count")
		if n, err := strconv.Atoi(out); err == nil {
			return n
		}
	}
	r.Fatalf("there is no counter, but %q and status %d", out, status)
	return 0
}

func TestClonesDiffer(t *testing.T) {
	r := newRig(t)
	template := r.template()

	tree := t.TempDir()
	r.ok(os.WriteFile(filepath.Join(tree, "file"), []byte("x"), 0o644))
	seen := map[string]bool{}
	for _, name := range []string{"one", "two"} {
		spec := r.next()
		spec.Workspace = filepath.Join(spec.Dir, "workspace")
		r.ok(r.driver.NewWorkspace(r.Context(), spec.Workspace, tree, spec.Disk))
		if name == "two" { // as a host without user namespaces makes it
			out, err := exec.Command("/sbin/tune2fs", "-L", protocol.LabelChown, spec.Workspace).CombinedOutput()
			if err != nil {
				t.Fatalf("tune2fs: %v\n%s", err, out)
			}
			if out, err := exec.Command("/sbin/debugfs", "-w", "-R", "sif /file uid 77", spec.Workspace).CombinedOutput(); err != nil {
				t.Fatalf("debugfs: %v\n%s", err, out)
			}
		}
		m, err := r.driver.Restore(r.Context(), spec, template, "")
		r.ok(err)
		c := r.greet(m, name, true)
		random, _ := r.probe(c, "", "random")
		facts, _ := r.probe(c, "", "facts")
		f := strings.Fields(facts)
		if len(f) != 5 || f[0] != "1000" || f[1] != name || f[3] != protocol.WorkspaceDir {
			t.Fatalf("clone %s: %s", name, facts)
		}
		if now, err := time.ParseDuration(f[4] + "s"); err != nil || (time.Duration(time.Now().Unix())*time.Second-now).Abs() > 5*time.Second {
			t.Errorf("clone %s: its clock says %s", name, f[4])
		}
		bootID, _ := r.probe(c, "", "cat", "/proc/sys/kernel/random/boot_id")
		for _, unique := range []string{random, f[2], bootID} {
			if seen[unique] || unique == "" {
				t.Errorf("clone %s: %q is not its own", name, unique)
			}
			seen[unique] = true
		}
		if owner, _ := r.probe(c, "", "owner", protocol.WorkspaceDir+"/file"); owner != "1000" {
			t.Errorf("clone %s: the file belongs to %s", name, owner)
		}
		r.ok(c.Detach(r.Context()))
		c.Close()
		r.ok(m.Kill())
	}
}

// template makes one and opens it.
func (r *rig) template() vmm.Template {
	r.Helper()
	m, err := r.driver.Boot(r.Context(), r.next())
	r.ok(err)
	defer m.Kill()
	c := r.greet(m, "template", false)
	r.ok(c.Quiesce(r.Context()))
	c.Close()
	dir := filepath.Join(r.TempDir(), "template")
	r.ok(r.driver.SaveTemplate(r.Context(), m, dir))
	template, err := r.driver.OpenTemplate(r.Context(), dir)
	r.ok(err)
	r.Cleanup(func() { template.Close() })
	return template
}

// A machine of the pool has used an empty workspace before it gets the one of its box.
func TestWorkspaceAfterWarmUp(t *testing.T) {
	r := newRig(t)
	spec := r.next()
	spec.Workspace = filepath.Join(spec.Dir, "workspace")
	r.ok(r.driver.NewWorkspace(r.Context(), spec.Workspace, "", spec.Disk))
	m, err := r.driver.Restore(r.Context(), spec, r.template(), "")
	r.ok(err)
	defer m.Kill()
	c := r.greet(m, "pool", false)
	defer c.Close()
	r.ok(c.Attach(r.Context(), protocol.AttachRequest{Workspace: true}))
	if out, status := r.probe(c, "", "owner", protocol.WorkspaceDir); out != "1000" || status != 0 {
		t.Errorf("the empty workspace: %q, %d", out, status)
	}
	r.ok(c.Detach(r.Context()))
	r.ok(m.Freeze(r.Context()))

	tree := t.TempDir()
	for i := range 500 { // so that what the guest had read of the empty one would be wrong
		r.ok(os.WriteFile(filepath.Join(tree, strconv.Itoa(i)), bytes.Repeat([]byte{'x'}, 5000), 0o644))
	}
	r.ok(r.driver.NewWorkspace(r.Context(), spec.Workspace, tree, spec.Disk))
	r.ok(m.Thaw(r.Context()))
	r.ok(c.Attach(r.Context(), protocol.AttachRequest{Workspace: true}))
	for _, name := range []string{"0", "250", "499"} {
		if out, status := r.probe(c, "", "cat", protocol.WorkspaceDir+"/"+name); len(out) != 5000 || status != 0 {
			t.Errorf("file %s: %d bytes, %d", name, len(out), status)
		}
	}
}
