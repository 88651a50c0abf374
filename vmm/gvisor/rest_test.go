package gvisor_test

import (
	"testing"
	"time"

	"github.com/prometheus/procfs"
)

// A machine at rest holds a fraction of runsc's program, of which its start maps all.
func TestIdleMachineReleasesProgramPages(t *testing.T) {
	h := realHarness(t)
	m := ok(h.Driver.Boot(t.Context(), inDir(t, h.Spec)))(t)
	defer m.Kill()
	said(t, greet(t, m), "facts")
	const enough = 24 << 20 // bytes of files that are mapped: a start maps 34 of its program alone
	for name, pid := range map[string]int{"file server": m.PIDs()[1], "sandbox": m.PIDs()[2]} {
		proc := ok(procfs.NewProc(pid))(t)
		mapped := func() uint64 { return ok(proc.NewStatus())(t).RssFile }
		for deadline := time.Now().Add(5 * time.Minute); mapped() > enough; time.Sleep(100 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("the %s has %d MiB of files mapped", name, mapped()>>20)
				break
			}
		}
	}
}
