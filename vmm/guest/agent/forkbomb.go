//go:build linux

package agent

import (
	"errors"
	"path/filepath"
	"syscall"
	"time"
)

// forkBombPatience is for how long one program may fill the box with processes, so that no other
// can be started. Who means to have that many learns of the limit at once, and has time to end
// some.
const forkBombPatience = 10 * time.Second

// endForkBomb ends the group of processes that has filled the box for a while. A virtual machine's
// kernel would leave it be, and give the others their turn; where each process is a thread of the
// host, a fork bomb leaves them next to none, and the host little. It is called by watch, again and
// again; full is when the box was first seen to be full without a break.
func (g *gvisorBox) endForkBomb(now time.Time) {
	if !g.isFull() {
		g.full = time.Time{}
		return
	}
	// The clock starts when the box is first seen to be full, and starts anew when it was not in
	// between.
	if g.full.IsZero() {
		g.full = now
	}
	if now.Sub(g.full) < forkBombPatience {
		return
	}
	g.full = time.Time{}
	if group := forkBombOf(g.processes(), number(filepath.Join(g.dir, "pids.max"), ""), syscall.Getpgid); group != 0 {
		g.log.Warn("a program had filled the box with processes: killed its group", "group", group)
		killGroup(group)
		g.forkBombs.Add(1)
	}
}

// isFull tells whether hardly another process can be started. One that is being forked in vain
// counts on and off. A thirty-second below the limit counts as full.
func (g *gvisorBox) isFull() bool {
	current := number(filepath.Join(g.dir, "pids.current"), "")
	if current < minForkBomb {
		return false
	}
	most := number(filepath.Join(g.dir, "pids.max"), "")
	return most > 0 && current >= most-most/32
}

// minForkBomb is how many processes are never too many.
const minForkBomb = 32

// forkBombSample is how many processes are looked at to find the group that most of them are in.
const forkBombSample = 64

// forkBombOf is the process group that more than half of the processes belong to, when these alone,
// whatever threads they have, are half of what the box may have; else 0. The agent's own group is
// never one. groupOf is getpgid. Looking at a sample is enough to find a majority, and does not
// take the time that thousands of calls would.
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

// killGroup kills until no process of the group is left: one that is being forked at that moment
// may be missed. It gives up after killTimeout.
func killGroup(group int) {
	poll(killTimeout, func() bool { return errors.Is(syscall.Kill(-group, syscall.SIGKILL), syscall.ESRCH) })
}
