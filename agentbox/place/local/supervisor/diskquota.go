package supervisor

import (
	"context"
	"os"
	"syscall"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/agentbox/home"
)

// diskWatch finds out when a workspace has grown beyond its quota. It is for a workspace that is a
// directory of the host, and so has no size of its own. Measuring one costs a look at every file.
// So it is measured when the file system has filled by as much as would matter, and otherwise now
// and then, since others may free there what the box takes. diskWatch is arithmetic alone, without
// files or clocks, so that tests can run it.
type diskWatch struct {
	limit int64         // bytes
	size  int64         // bytes of the workspace, when it was last measured
	used  int64         // the least that its file system has had in use since then
	at    time.Time     // when it was last measured
	cost  time.Duration // how long that took
}

const (
	measureEvery = 30 * time.Second // the least between two regular measurements
	measureShare = 200              // one part in so many of the time goes into measuring
)

// newDiskWatch starts with what a workspace holds. One that exceeds its quota from the start may
// grow by a sixteenth of it: the user who is to make room must be let in.
func newDiskWatch(limit, held, used int64) *diskWatch {
	if held > limit {
		limit = held + limit/16
	}
	return &diskWatch{limit: limit, size: held, used: used}
}

// due tells whether it is time to measure again. step is what may still be written before the
// limit, but neither so little that a full workspace is measured all the time nor so much that one
// that grows fast is noticed late.
func (d *diskWatch) due(used int64, now time.Time) bool {
	d.used = min(d.used, used)
	step := min(max(d.limit-d.size, d.limit/32), d.limit/4)
	return used-d.used >= step || now.Sub(d.at) >= max(measureEvery, measureShare*d.cost)
}

// record takes a measurement, with its time and cost, and tells whether the workspace exceeds its
// quota. Callers stop at the first true.
func (d *diskWatch) record(held, used int64, at time.Time, cost time.Duration) bool {
	d.size, d.used, d.at, d.cost = held, used, at, cost
	return held > d.limit
}

// Times of watchDisk, which looks at the fill of the file system, one cheap call, every diskEvery.
const (
	diskDelay = 5 * time.Second // leaves the processor to the command that has just entered the box
	diskEvery = 2 * time.Second
)

// watchDisk pauses a box whose workspace exceeds disk:. It returns when ctx ends. A microVM's
// workspace is a disk with a size, and needs no watch.
func (s *Supervisor) watchDisk(ctx context.Context) {
	dir := s.cfg.Spec.Workspace
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return // a disk of its own, with a size
	}
	if !background.Sleep(ctx, diskDelay) {
		return
	}
	w := newDiskWatch(s.cfg.Spec.Disk, home.DiskUsage(dir), inUse(dir))
	for background.Sleep(ctx, diskEvery) {
		used, now := inUse(dir), time.Now()
		if !w.due(used, now) {
			continue
		}
		held := home.DiskUsage(dir)
		if w.record(held, used, now, time.Since(now)) {
			s.pauseAtLimit(ctx, agentbox.Limit{Kind: agentbox.LimitDisk, Count: s.cfg.Spec.Disk}, func() bool { return true })
			return
		}
	}
}

// inUse is how many bytes of a file system are in use, or 0 where that is unknown, which makes the
// watch measure now and then.
func inUse(dir string) int64 {
	var st syscall.Statfs_t
	if syscall.Statfs(dir, &st) != nil {
		return 0
	}
	return int64(st.Blocks-st.Bfree) * st.Bsize
}
