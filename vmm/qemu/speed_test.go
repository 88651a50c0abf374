package qemu_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"agentbox/vmm"
	"agentbox/vmm/qemu"
	"agentbox/vmm/vmmtest"
)

// TestSpeed logs what entering a box is made of (go test -v -run Speed). It fails only where
// something is slower than any busy machine explains.
func TestSpeed(t *testing.T) {
	h := realHarness(t)
	d, tp := h.Driver.(*qemu.Driver), vmmtest.OpenTemplate(t, h)
	timed := func(what string, f func() error) {
		t.Helper()
		begun := time.Now()
		if err := f(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		took := time.Since(begun)
		t.Logf("%-26s %v", what, took.Round(100*time.Microsecond))
		if took > time.Minute {
			t.Errorf("%s took %v", what, took)
		}
	}
	for range 3 {
		spec := inDir(t, h.Spec)
		spec.Workspace = filepath.Join(spec.Dir, "workspace")
		saved := filepath.Join(spec.Dir, "saved")
		var m vmm.Machine
		var g vmmtest.Guest
		timed("new workspace", func() error { return d.NewWorkspace(t.Context(), spec.Workspace, "", spec.Disk) })
		timed("restore", func() (err error) { m, err = d.Restore(t.Context(), spec, tp, ""); return err })
		defer m.Kill()
		timed("connect", func() (err error) { g, err = connect(t.Context(), m); return err })
		timed("write 4 MB of memory", func() error {
			return g.Put(t.Context(), vmmtest.Memory, "m", bytes.Repeat([]byte("changed "), 512<<10))
		})
		timed("save in place", func() error { return d.Save(t.Context(), m, saved, vmm.InPlace) })
		if info, err := os.Stat(filepath.Join(saved, "memory.pages")); err == nil {
			t.Logf("%-26s %d MB", "saved memory", info.Size()>>20)
		}
		timed("kill", m.Kill)
		timed("restore what was saved", func() (err error) { m, err = d.Restore(t.Context(), spec, tp, saved); return err })
		timed("connect again", func() (err error) { g, err = connect(t.Context(), m); return err })
		timed("kill", m.Kill)
	}
}
