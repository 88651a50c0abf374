package vmmtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"agentbox/vmm"
)

// Run tests everything that the interfaces of package vmm promise. It calls setup once. Saved states
// are tested if the driver is a vmm.Snapshotter, and templates if it is a vmm.Templater.
func Run(t *testing.T, setup func(*testing.T) Harness) {
	r := newRig(t, setup(t))
	r.sub("Probe", testProbe)
	r.sub("Workspaces", testWorkspaces)
	r.sub("Boot", testBoot)
	r.sub("Served", testServed)
	if _, ok := r.Driver.(vmm.Snapshotter); ok {
		testSnapshots(newRig(t, r.Harness)) // with a time limit of its own
	}
}

// testProbe asks three times, once afresh, and checks that a fingerprint depends on a machine's
// size and not on its name or paths.
func testProbe(r *rig) {
	for _, fresh := range []bool{false, true, false} {
		facts, err := r.Driver.Probe(r.ctx, fresh)
		r.ok(err)
		if facts.Version == "" || facts.Reason == "" && facts.Accel != "" {
			r.Errorf("facts say too little: %+v", facts)
		}
	}
	one, err := r.Driver.Fingerprint(r.ctx, r.spec("one"))
	r.ok(err)
	two, err := r.Driver.Fingerprint(r.ctx, r.spec("two"))
	r.ok(err)
	if one != two || one == "" {
		r.Errorf("twins have fingerprints %q and %q", one, two)
	}
	bigger := r.spec("bigger")
	bigger.Memory *= 2
	if three, err := r.Driver.Fingerprint(r.ctx, bigger); err != nil || three == one {
		r.Errorf("a machine with more memory has fingerprint %q (%v), as one with less", three, err)
	}
}

// testBoot follows one machine through a life, freezing and its end.
func testBoot(r *rig) {
	m := r.owned(r.Driver.Boot(r.ctx, r.spec("boot")))
	g := r.connect(m)
	r.put(g, Memory, "m", "memory")
	r.put(g, Runtime, "r", "runtime")
	r.want(g, Memory, "m", "memory")
	r.want(g, Runtime, "r", "runtime")
	if len(m.PIDs()) == 0 {
		r.Error("a running machine has no process")
	}
	testFreeze(r, m, g)
	select {
	case <-m.Done():
		r.Error("Done is closed while the machine runs")
	default:
	}
	if err := m.Err(); err != nil {
		r.Errorf("a running machine has Err %v", err)
	}
	testKill(r, m)
	testEnds(r)
}

// testFreeze checks that a frozen guest answers nothing, by waiting a while for an answer that must
// not come, that Freeze and Thaw are idempotent, and that another life of the guest can begin.
func testFreeze(r *rig, m vmm.Machine, g Guest) {
	r.ok(m.Freeze(r.ctx))
	r.ok(m.Freeze(r.ctx))
	answered := make(chan error, 1)
	go func() {
		_, err := g.Get(r.ctx, Memory, "m")
		answered <- err
	}()
	select {
	case err := <-answered:
		r.Errorf("a frozen guest answered (%v)", err)
	case <-time.After(300 * time.Millisecond):
	}
	r.ok(m.Thaw(r.ctx))
	r.ok(m.Thaw(r.ctx))
	r.ok(<-answered)
	r.ok(g.Close())
	// What the guest had in memory outlives the conversation that put it there.
	r.want(r.connect(m), Memory, "m", "memory") // a second life of the same guest
}

// testKill checks what a Machine promises after its end: no error, no frame, and no bytes but those
// in transit.
func testKill(r *rig, m vmm.Machine) {
	r.ok(m.Kill())
	r.ok(m.Kill())
	r.wantEnd(m)
	if err := m.Err(); err != nil {
		r.Errorf("a killed machine has Err %v", err)
	}
	if m.Freeze(r.ctx) == nil || m.Thaw(r.ctx) == nil {
		r.Error("a machine that has ended was frozen and thawed")
	}
	// Bytes that the guest had sent may still be read, and no more than that.
	wantCut(r, m)
	if _, err := m.Stream().Read(make([]byte, 1<<16)); err == nil {
		if _, err = m.Stream().Read(make([]byte, 1<<16)); err == nil {
			r.Error("a machine that has ended goes on talking")
		}
	}
}

// wantCut requires the link of a machine that has ended to be closed, once all that it had sent was
// read.
func wantCut(r *rig, m vmm.Machine) {
	n, ok := m.(vmm.Networked)
	if !ok || n.Link() == nil {
		return
	}
	if err := n.Link().WriteFrame(make([]byte, 60)); err == nil {
		r.Error("a machine that has ended takes a frame")
	}
	buf := make([]byte, 14+n.Link().MTU())
	for range 1 << 16 {
		if _, err := n.Link().ReadFrame(buf); err != nil && !errors.Is(err, vmm.ErrLongFrame) {
			r.ok(n.Link().Close())
			return
		}
	}
	r.Error("a machine that has ended goes on sending frames")
}

// testEnds checks the ways in which a machine ends: switched off from inside, crashed, never
// started.
func testEnds(r *rig) {
	m := r.owned(r.Driver.Boot(r.ctx, r.spec("off")))
	r.ok(r.connect(m).PowerOff(r.ctx))
	r.wantEnd(m)
	if err := m.Err(); err != nil {
		r.Errorf("a machine that was shut down from inside has Err %v", err)
	}
	m = r.owned(r.Driver.Boot(r.ctx, r.spec("crash")))
	r.ok(r.Crash(m))
	r.wantEnd(m)
	if m.Err() == nil {
		r.Error("a machine that crashed has no Err")
	}
	cancelled, cancel := context.WithCancel(r.ctx)
	cancel()
	if m, err := r.Driver.Boot(cancelled, r.spec("cancelled")); err == nil {
		m.Kill()
		r.Error("a machine was started under a context that had ended")
	}
}
