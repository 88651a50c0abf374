//go:build linux

package agent

import (
	"io"
	"log/slog"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

func TestForkBombOf(t *testing.T) {
	group := func(of ...int) func(int) (int, error) {
		return func(pid int) (int, error) {
			if g := of[pid%len(of)]; g > 0 {
				return g, nil
			}
			return 0, syscall.ESRCH
		}
	}
	for _, c := range []struct {
		name      string
		processes int
		groupOf   func(int) (int, error)
		want      int
	}{
		{"one program's", 1000, group(7), 7},
		{"most are", 1000, group(7, 7, 8), 7},
		{"of many programs", 1000, group(7, 8, 9, 10, 11, 12, 13), 0},
		{"few, with many threads", 400, group(7), 0},
		{"all have just ended", 1000, group(0), 0},
		{"the agent's own group", 1000, group(syscall.Getpgrp()), 0},
		{"none", 0, group(7), 0},
	} {
		pids := make([]int, c.processes)
		for i := range pids {
			pids[i] = i
		}
		if got := forkBombOf(pids, 1024, c.groupOf); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestForkBombDelay(t *testing.T) {
	box := func(current, most int) *gvisorBox {
		g := &gvisorBox{log: slog.New(slog.NewTextHandler(io.Discard, nil)), dir: writeTree(t, map[string]string{
			"pids.current": strconv.Itoa(current) + "\n", "pids.max": strconv.Itoa(most) + "\n", "cgroup.procs": "",
		})}
		g.list = func() []int { return pidsIn(filepath.Join(g.dir, "cgroup.procs")) }
		return g
	}
	now := time.Now()
	for _, c := range []struct {
		current, most int
		full          bool
	}{{1024, 1024, true}, {1000, 1024, true}, {900, 1024, false}, {10, 10, false}, {100, 0, false}} {
		g := box(c.current, c.most)
		g.endForkBomb(now)
		if g.fullSince.IsZero() == c.full {
			t.Errorf("%d of %d: full since %v", c.current, c.most, g.fullSince)
		}
	}
	g := box(1024, 1024)
	g.endForkBomb(now)
	g.endForkBomb(now.Add(forkBombDelay / 2))
	if !g.fullSince.Equal(now) {
		t.Errorf("its patience begins anew at %v", g.fullSince)
	}
	g.endForkBomb(now.Add(forkBombDelay))
	if !g.fullSince.IsZero() || g.forkBombs.Load() != 0 {
		t.Errorf("without a fork bomb: full since %v, %d of them", g.fullSince, g.forkBombs.Load())
	}
}

// gVisor returns the memory of a killed process late on a busy host. What starts meanwhile and
// takes a little must not be killed in its place; what takes much must.
func TestOneKillPerMemoryShortage(t *testing.T) {
	const total, before = 512 << 20, 20 << 20
	for _, test := range []struct {
		available int64
		want      bool
	}{
		{before, false},
		{before - 4096, false},
		{before - 2<<20, false},
		{before/2 - 1, true},
		{reservedMemory(total), false},
		{reservedMemory(total) + 1, true},
	} {
		if got := isReclaimed(total, before, test.available); got != test.want {
			t.Errorf("%d bytes available of %d, %d before: got %v, want %v", test.available, total, before, got, test.want)
		}
	}
}
