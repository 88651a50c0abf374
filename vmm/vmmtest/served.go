package vmmtest

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"agentbox/vmm"
)

// slowImage is an image file whose bytes come when the gate is open. It implements vmm.Blocks over
// the harness's own image.
type slowImage struct {
	f    *os.File
	size int64
	// How often it was read, and how many reads wait at the gate.
	reads   atomic.Int64
	waiting atomic.Int64

	mu   sync.Mutex
	gate chan struct{} // closed when it is open
}

// newSlowImage has its gate shut.
func newSlowImage(r *rig) *slowImage {
	r.Helper()
	f, err := os.Open(r.Spec.Image)
	r.ok(err)
	r.Cleanup(func() { f.Close() })
	info, err := f.Stat()
	r.ok(err)
	return &slowImage{f: f, size: info.Size(), gate: make(chan struct{})}
}

// Size implements vmm.Blocks.
func (s *slowImage) Size() int64 { return s.size }

// ReadBlocks implements vmm.Blocks: it waits for the gate.
func (s *slowImage) ReadBlocks(ctx context.Context, p []byte, off int64) error {
	s.reads.Add(1)
	s.mu.Lock()
	gate := s.gate
	s.mu.Unlock()
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	select {
	case <-gate:
	case <-ctx.Done():
		return ctx.Err()
	}
	_, err := s.f.ReadAt(p, off)
	return err
}

// open lets all reads through, those that wait included.
func (s *slowImage) open() { close(s.gate) }

// awaitReader waits until a machine waits for bytes.
func (s *slowImage) awaitReader(r *rig) {
	r.Helper()
	for s.waiting.Load() == 0 {
		select {
		case <-r.ctx.Done():
			r.Fatal("nobody reads the image")
		case <-time.After(time.Millisecond):
		}
	}
}

// testServed has machines whose image is no file of the host: one that waits for its bytes goes on
// when they come, and can be ended while they do not. The spec names an image file that does not
// exist, so a driver that opens it is found out.
func testServed(r *rig) {
	if r.Spec.Image == "" {
		r.Skip("machines of this kind have no image")
	}
	served := func(name string) (vmm.Spec, *slowImage) {
		s := r.spec(name)
		image := newSlowImage(r)
		s.Image, s.Blocks = r.path("nowhere.erofs"), image
		return s, image
	}
	spec, image := served("boot")
	// The guest is on its way by then, or is not: it has to come up either way.
	time.AfterFunc(100*time.Millisecond, image.open)
	m := r.owned(r.Driver.Boot(r.ctx, spec))
	g := r.connect(m)
	r.put(g, Runtime, "r", "runtime")
	r.want(g, Runtime, "r", "runtime")
	if image.reads.Load() == 0 {
		r.Error("the image was never read")
	}
	r.ok(g.Close())
	testServedTemplate(r, m, served)

	spec, image = served("ended")
	ctx, cancel := context.WithCancel(r.ctx)
	booted := make(chan error, 1)
	go func() {
		m, err := r.Driver.Boot(ctx, spec)
		if err == nil { // this kind does not wait for its guest
			image.awaitReader(r)
			err = m.Kill()
		}
		booted <- err
	}()
	image.awaitReader(r)
	// A driver whose Boot waits for the guest is ended by its context, one that does not by Kill.
	cancel()
	select {
	case <-booted:
	case <-r.ctx.Done():
		r.Fatal("a machine that waits for its image cannot be ended")
	}
}

// testServedTemplate has clones of a machine with such an image, with and without one. A template
// says nothing of how its machine got its image, so clones may have it either way.
func testServedTemplate(r *rig, m vmm.Machine, served func(string) (vmm.Spec, *slowImage)) {
	s, ok := r.Driver.(vmm.Snapshotter)
	if !ok {
		return
	}
	g := r.connect(m)
	r.ok(g.Quiesce(r.ctx))
	r.ok(g.Close())
	r.ok(s.SaveTemplate(r.ctx, m, r.path("template")))
	t, err := s.OpenTemplate(r.ctx, r.path("template"))
	r.ok(err)
	defer t.Close()
	spec, image := served("clone")
	image.open()
	for _, spec := range []vmm.Spec{spec, r.spec("plain")} {
		clone := r.owned(s.Restore(r.ctx, spec, t, ""))
		g := r.connect(clone)
		r.put(g, Runtime, "c", spec.Name)
		r.want(g, Runtime, "c", spec.Name)
		r.ok(g.Close())
	}
}
