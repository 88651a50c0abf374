package resources

// Machine is what this machine has.
type Machine struct {
	CPUs      int   `json:"cpus"`
	Memory    int64 `json:"memory"`    // bytes
	Available int64 `json:"available"` // bytes that can be had now without swapping
}

// Promised is what running boxes may grow to together. It is more than they hold now: a machine
// takes memory when it writes to it.
type Promised struct {
	Boxes  int   `json:"boxes"`
	CPUs   int   `json:"cpus"`
	Memory int64 `json:"memory"` // bytes
}

// Share is what one box gets.
type Share struct {
	CPUs   int   `json:"cpus"`
	Memory int64 `json:"memory"` // bytes
}

const (
	gib = 1 << 30

	// Sizes are powers of two, so that few different templates serve every load.
	minMemory = 1 * gib
	maxMemory = 8 * gib
	maxCPUs   = 8
	minCPUs   = 2 // an agent and what it runs

	boxesPlanned = 7  // of the full size, for which the memory is meant; firmware keeps some of 16 GiB
	keptFree     = 10 // one part in so many of the memory stays available
	cpuPromises  = 3  // times the CPUs: agents wait for their models most of the time

	poolFrom    = 8 * gib // bytes available, below which no machine is kept ready
	poolPerSize = 8 * gib // bytes available for each
	poolMax     = 4
	poolFewCPUs = 4 // below this many CPUs one machine is kept: restoring it takes what others need
)

// reserve is what stays available for everything that is no box.
func (m Machine) reserve() int64 { return m.Memory / keptFree }

// free is what may be promised to one more box: what is available beyond the reserve, and no more
// than half as much again as the machine has in all promises together.
func (m Machine) free(p Promised) int64 {
	return min(m.Available-m.reserve(), m.Memory/2*3-p.Memory)
}

// Full is the share of a box on this machine when nothing else runs.
func (m Machine) Full() Share {
	return Share{CPUs: clamp(m.CPUs/2, min(minCPUs, max(m.CPUs, 1)), maxCPUs), Memory: clamp(m.Memory/boxesPlanned, minMemory, maxMemory)}
}

// Next is the share of the next box. fits is false where the machine has no room even for the
// smallest, which is given all the same: what boxes really take is known only afterwards.
func (m Machine) Next(p Promised) (s Share, fits bool) {
	s = m.Full()
	for free := m.free(p); s.Memory > free && s.Memory > minMemory; {
		s.Memory /= 2
	}
	for p.CPUs+s.CPUs > cpuPromises*m.CPUs && s.CPUs > minCPUs {
		s.CPUs /= 2
	}
	return s, s.Memory <= m.free(p)
}

// Room is how many more boxes there is room for, each of the share that it would get by default if
// the ones before it took all of theirs. It is an estimate for people, and no promise: what boxes
// take shows when they run.
func (m Machine) Room(p Promised) int {
	for n := 0; ; n++ {
		s, fits := m.Next(p)
		if !fits {
			return n
		}
		m.Available -= s.Memory
		p = Promised{Boxes: p.Boxes + 1, CPUs: p.CPUs + s.CPUs, Memory: p.Memory + s.Memory}
	}
}

// Pool is how many machines of each template are kept ready. It is what PoolAuto means; a number in
// the configuration is taken as it is.
func (m Machine) Pool() int {
	if m.Available < poolFrom {
		return 0
	}
	n := min(poolMax, int(m.Available/poolPerSize))
	if m.CPUs < poolFewCPUs {
		return min(n, 1)
	}
	return n
}

// clamp gives the largest power of two up to n, within bounds that are powers of two themselves or
// smaller than every other.
func clamp[T int | int64](n, low, high T) T {
	p := low
	for p*2 <= min(n, high) {
		p *= 2
	}
	return p
}
