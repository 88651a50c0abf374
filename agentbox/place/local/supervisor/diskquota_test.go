package supervisor

import (
	"agentbox/agentbox/home"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestDiskWatch(t *testing.T) {
	const mib = 1 << 20
	now := time.Now()
	w := newDiskWatch(1024*mib, 100*mib, 5000*mib)
	w.record(100*mib, 5000*mib, now, 0)
	if w.due(5200*mib, now) {
		t.Error("counted after a fifth of what is left")
	}
	if !w.due(5256*mib, now) {
		t.Error("not counted after a quarter of the limit")
	}
	if w.due(4000*mib, now) || !w.due(4256*mib, now) {
		t.Error("what others free is not remembered")
	}
	if w.record(1024*mib, 5980*mib, now, 0) {
		t.Error("too much within the limit")
	}
	if w.due(6011*mib, now) || !w.due(6012*mib, now) {
		t.Error("near the limit it is counted for each thirty-second part")
	}
	if !w.record(1025*mib, 6012*mib, now, time.Second) {
		t.Error("not too much beyond the limit")
	}
	if w.due(6012*mib, now.Add(measureEvery)) || !w.due(6012*mib, now.Add(measureShare*time.Second)) {
		t.Error("what costs more is not counted less often")
	}
	w = newDiskWatch(1024*mib, 2000*mib, 0)
	if w.record(2064*mib, 64*mib, now, 0) || !w.record(2065*mib, 65*mib, now, 0) {
		t.Error("a workspace that begins beyond the limit may grow by a sixteenth")
	}
}

func TestHolds(t *testing.T) {
	dir := t.TempDir()
	empty := home.DiskUsage(dir)
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a", "b", "file"), make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := home.DiskUsage(dir) - empty; got < 3<<20 || got > 4<<20 {
		t.Errorf("3 MiB take %d bytes", got)
	}
	if inUse(dir) <= 0 || inUse(filepath.Join(dir, "missing")) != 0 {
		t.Errorf("in use: %d", inUse(dir))
	}
}
