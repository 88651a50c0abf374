package idle

import "sync"

// sample is what the CPUs have done since this machine was started.
type sample struct {
	cpus      int
	busy, all float64  // seconds of all CPUs together
	waited    *float64 // seconds in which something waited for a CPU; nil on a kernel that cannot tell
	runnable  int      // processes that run now
}

// The window over which a machine is judged, in seconds of it. A shorter one than least says nothing.
const (
	longest = 60
	least   = 1
)

// Meter judges what this machine does by itself: it does not count what tasks of others do, or did. An
// average of the kernel's would, for minutes after the last one ended, and not tell one from the other.
// The zero Meter has measured nothing. It is safe for concurrent use.
type Meter struct {
	mu  sync.Mutex
	all []sample // the oldest first, since the last task of others ended
}

// add measures anew and returns the part of the CPUs that was in use, and the percentage of time in which
// something waited for one. While tasks of others run, these are of this moment.
func (m *Meter) add(now sample, guests bool) (load float64, pressure *float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if guests {
		m.all = nil
	}
	for len(m.all) > 1 && now.seconds(m.all[1]) >= longest {
		m.all = m.all[1:]
	}
	if len(m.all) == 0 || now.seconds(m.all[len(m.all)-1]) >= least {
		m.all = append(m.all, now)
	}
	first := m.all[0]
	seconds := now.seconds(first)
	if seconds < least {
		return float64(now.runnable) / float64(max(now.cpus, 1)), nil
	}
	if now.waited != nil && first.waited != nil {
		percent := 100 * max(*now.waited-*first.waited, 0) / seconds
		pressure = &percent
	}
	return max(now.busy-first.busy, 0) / (now.all - first.all), pressure
}

// seconds is how long after an earlier sample this one was taken, by the CPUs' own account: they count
// nothing while the machine sleeps.
func (s sample) seconds(earlier sample) float64 {
	return (s.all - earlier.all) / float64(max(s.cpus, 1))
}
