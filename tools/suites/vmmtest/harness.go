package vmmtest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"agentbox/vmm"
)

// Storage is where a guest keeps a file, by what happens to the file when the machine ends.
type Storage int

const (
	Memory    Storage = iota // gone, unless the machine was saved
	Runtime                  // on the runtime layer
	Workspace                // on the workspace, after Attach
)

// Guest is a guest that does what the suite asks. A file that Put has returned for is on the
// machine's disk. Files are named by place and relative path. Methods are called one at a time but
// for Get, which may wait in a frozen guest.
type Guest interface {
	// Put writes the file, replacing an existing one.
	Put(ctx context.Context, place Storage, name string, data []byte) error
	// Get returns the content of the file; a missing one is an error.
	Get(ctx context.Context, place Storage, name string) ([]byte, error)
	Attach(ctx context.Context) error // mount the workspace
	// Quiesce readies the guest to become a template; only Close follows.
	Quiesce(ctx context.Context) error
	PowerOff(ctx context.Context) error // a clean shutdown from inside
	Close() error                       // ends this conversation; the guest goes on
}

// Harness is a driver and what its machines need. All tests share the Driver.
type Harness struct {
	// The driver under test. Its optional abilities are found by type assertions.
	Driver vmm.Driver
	// Spec is complete but for Name, Dir and Workspace.
	Spec vmm.Spec
	// Connect begins a new life of the guest.
	Connect func(ctx context.Context, m vmm.Machine) (Guest, error)
	// Crash ends the machine's processes behind the driver's back.
	Crash func(m vmm.Machine) error
	// Unverified names files of a saved state, by base name, whose bytes carry no digest; the suite
	// only truncates and removes them.
	Unverified func(name string) bool
}

// limit bounds each test of the suite, for emulated machines on a busy host. A test that needs
// longer hangs.
const limit = 20 * time.Minute

// rig is a harness with a directory and a context. Each subtest has its own.
type rig struct {
	Harness
	*testing.T
	// The test's own, which ends after limit; base is its temporary directory.
	ctx  context.Context
	base string
}

// newRig gives the test a context that ends with it, at the latest after limit.
func newRig(t *testing.T, h Harness) *rig {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return &rig{h, t, ctx, t.TempDir()}
}

// sub runs f as a subtest. Subtests run one after the other, since machines take much memory.
func (r *rig) sub(name string, f func(*rig)) {
	r.Run(name, func(t *testing.T) { f(newRig(t, r.Harness)) })
}

func (r *rig) path(name string) string { return filepath.Join(r.base, name) }

// spec is that of a machine with a new directory. Its size and image are the harness's.
func (r *rig) spec(name string) vmm.Spec {
	r.Helper()
	s := r.Spec
	s.Name, s.Dir = name, r.path(name)
	r.ok(os.MkdirAll(s.Dir, 0o700))
	return s
}

func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// owned kills the machine when the test ends. It takes the results of Boot or Restore, and ends the
// test after an error.
func (r *rig) owned(m vmm.Machine, err error) vmm.Machine {
	r.Helper()
	r.ok(err)
	r.Cleanup(func() {
		if err := m.Kill(); err != nil {
			r.Errorf("kill at the end: %v", err)
		}
	})
	return m
}

// connect begins a life of the guest. A failure message includes why the machine ended.
func (r *rig) connect(m vmm.Machine) Guest {
	r.Helper()
	g, err := r.Connect(r.ctx, m)
	if err != nil {
		r.Fatalf("connect: %v (the machine: %v)", err, m.Err())
	}
	return g
}

func (r *rig) put(g Guest, p Storage, name, data string) {
	r.Helper()
	r.ok(g.Put(r.ctx, p, name, []byte(data)))
}

// want reports a file whose content is not data, and goes on.
func (r *rig) want(g Guest, p Storage, name, data string) {
	r.Helper()
	b, err := g.Get(r.ctx, p, name)
	if err != nil || string(b) != data {
		r.Errorf("%s holds %q (%v), want %q", name, b, err, data)
	}
}

// wantEnd waits for the machine's end. Tests look at Err themselves.
func (r *rig) wantEnd(m vmm.Machine) {
	r.Helper()
	select {
	case <-m.Done():
	case <-r.ctx.Done():
		r.Fatal("the machine does not end")
	}
}
