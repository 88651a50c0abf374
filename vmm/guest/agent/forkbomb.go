//go:build linux

package agent

import (
	"errors"
	"path/filepath"
	"syscall"
	"time"
)

// forkBombDelay is how long one program may fill the box with processes. A program that means to
// have that many gets an error at once, and time to end some.
const forkBombDelay = 10 * time.Second

// endForkBomb ends the group of processes that has filled the box for forkBombDelay. The kernel
// of a virtual machine would leave it and give others their turn. Here each process is a thread of
// the host, so a fork bomb leaves the box next to no time, and the host little. watch calls it
// again and again.
func (g *gvisorBox) endForkBomb(now time.Time) {
	if g.forkBomb == 0 {
		g.forkBomb = g.findForkBomb(now)
	}
	if g.forkBomb != 0 && killGroup(g.forkBomb) {
		g.forkBombs.Add(1)
		g.forkBomb = 0
	}
}

func (g *gvisorBox) findForkBomb(now time.Time) int {
	if !g.isFull() {
		g.fullSince = time.Time{}
		return 0
	}
	// The clock starts when the box is first seen to be full, and starts anew when it was not in
	// between.
	if g.fullSince.IsZero() {
		g.fullSince = now
	}
	if now.Sub(g.fullSince) < forkBombDelay {
		return 0
	}
	g.fullSince = time.Time{}
	group := forkBombOf(g.processes(), readNumber(filepath.Join(g.dir, "pids.max"), ""), syscall.Getpgid)
	if group != 0 {
		g.log.Warn("a fork bomb has filled the box with processes: killing its group", "group", group)
	}
	return group
}

// isFull reports whether hardly another process can be started. Being within a 32nd of the limit is
// full, since failing forks make the count vary.
func (g *gvisorBox) isFull() bool {
	current := readNumber(filepath.Join(g.dir, "pids.current"), "")
	if current < minForkBomb {
		return false
	}
	most := readNumber(filepath.Join(g.dir, "pids.max"), "")
	return most > 0 && current >= most-most/32
}

// minForkBomb is how many processes are never too many.
const minForkBomb = 32

const forkBombSample = 64 // processes

// forkBombOf is the process group that most processes belong to, if the processes are half of what
// the box may have, threads not counted; else 0. It is never the agent's own. A sample is enough to
// find a majority, and takes less time than thousands of calls. groupOf is getpgid.
func forkBombOf(pids []int, limit int, groupOf func(pid int) (int, error)) int {
	if len(pids) < limit/2 {
		return 0
	}
	count, seen := map[int]int{}, 0
	for i := 0; i < len(pids); i += max(1, len(pids)/forkBombSample) {
		if group, err := groupOf(pids[i]); err == nil { // else it has ended
			count[group]++
			seen++
		}
	}
	for group, n := range count {
		if 2*n > seen && group > 1 && group != syscall.Getpgrp() {
			return group
		}
	}
	return 0
}

// killGroup repeats the signal until no process of the group is left, since one that is being
// forked may be missed. After killTimeout it returns false; the caller tries again, because a box
// whose host is busy may need longer.
func killGroup(group int) bool {
	return poll(killTimeout, func() bool { return errors.Is(syscall.Kill(-group, syscall.SIGKILL), syscall.ESRCH) })
}
