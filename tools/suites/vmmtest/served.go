package vmmtest

import (
	"context"
	"os"
	"time"

	"agentbox/vmm"
)

// testServed has machines whose image is no file of the host: one that waits for its bytes goes on
// when they come, and can be ended while they do not. The spec names an image file that does not
// exist, so a driver that opens it fails.
func testServed(r *rig) {
	if _, ok := r.Driver.(vmm.BlockReader); !ok {
		r.Skip("machines of this kind need their whole image")
	}
	if r.Spec.Image == "" {
		r.Skip("machines of this kind have no image")
	}
	served := func(name string) (vmm.Spec, *withheldImage) {
		r.Helper()
		s := r.spec(name)
		f, err := os.Open(s.Image)
		r.ok(err)
		r.Cleanup(func() { f.Close() })
		info, err := f.Stat()
		r.ok(err)
		image := withhold(f, info.Size(), 0, info.Size())
		s.Image, s.Blocks = r.path("nowhere.erofs"), image
		return s, image
	}
	spec, image := served("boot")
	// The guest is on its way by then, or is not: it has to come up either way.
	time.AfterFunc(100*time.Millisecond, func() { close(image.released) })
	m := r.owned(r.Driver.Boot(r.ctx, spec))
	g := r.connect(m)
	r.put(g, Runtime, "r", "runtime")
	r.want(g, Runtime, "r", "runtime")
	if len(image.asked) == 0 {
		r.Error("the image was never read")
	}
	r.ok(g.Close())
	testServedState(r, m, served)

	spec, image = served("ended")
	ctx, cancel := context.WithCancel(r.ctx)
	booted := make(chan error, 1)
	go func() {
		m, err := r.Driver.Boot(ctx, spec)
		if err == nil { // this kind does not wait for its guest
			<-ctx.Done()
			err = m.Kill()
		}
		booted <- err
	}()
	select {
	case <-image.asked:
	case <-r.ctx.Done():
		r.Fatal("nobody reads the image")
	}
	// A driver whose Boot waits for the guest is ended by its context, one that does not by Kill.
	cancel()
	select {
	case <-booted:
	case <-r.ctx.Done():
		r.Fatal("a machine that waits for its image cannot be ended")
	}
}

// testServedState restores a machine that had such an image, with one and without: neither a template
// nor a saved state depends on how its machine got its image. The guest of m has no connection.
func testServedState(r *rig, m vmm.Machine, served func(string) (vmm.Spec, *withheldImage)) {
	s, ok := r.Driver.(vmm.Snapshotter)
	if !ok {
		return
	}
	var t vmm.Template
	saved := r.path("saved")
	if d, ok := s.(vmm.Templater); ok {
		g := r.connect(m)
		r.ok(g.Quiesce(r.ctx))
		r.ok(g.Close())
		r.ok(d.SaveTemplate(r.ctx, m, r.path("template")))
		t, saved = r.open(r.path("template")), ""
	} else {
		r.ok(s.Save(r.ctx, m, saved, vmm.WithDisks))
	}
	spec, image := served("clone")
	close(image.released)
	for _, spec := range []vmm.Spec{spec, r.spec("plain")} {
		g := r.connect(r.restore(spec, t, saved))
		r.put(g, Runtime, "c", spec.Name)
		r.want(g, Runtime, "c", spec.Name)
		r.ok(g.Close())
	}
}
