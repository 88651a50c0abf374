package resources

// Machine is what this machine has.
type Machine struct {
	CPUs      int   `json:"cpus"`
	Memory    int64 `json:"memory"`    // bytes
	Available int64 `json:"available"` // bytes that can be had now without swapping
}

// Allocated is what running boxes may grow to together. That is more than they hold now: a machine
// takes memory as it writes to it.
type Allocated struct {
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

	// Sizes are powers of two, so that few different templates and machines of the pool serve every load.
	minMemory = 1 * gib
	maxMemory = 8 * gib
	maxCPUs   = 8
	minCPUs   = 2 // an agent and what it runs

	boxesPlanned = 7  // boxes of the full size that fit the memory; 7 and not 8, as firmware keeps some of 16 GiB
	keptFree     = 10 // one part in so many of the memory stays available
	cpuPromises  = 3  // times the CPUs may be promised: agents mostly wait for their models

	poolFrom    = 8 * gib // bytes available, below which no machine is kept ready
	poolPerSize = 8 * gib // bytes available for each
	poolMax     = 4
	poolFewCPUs = 4 // below this many CPUs one machine is kept: restoring it takes what others need
)

// reserve is the memory that stays available for everything but boxes.
func (m Machine) reserve() int64 { return m.Memory / keptFree }

// Most is the most memory that one box may be promised, in bytes and whole MiB: with more of it in
// use, nothing else on the machine would run.
func (m Machine) Most() int64 { return (m.Memory - m.reserve()) >> 20 << 20 }

// free is what may be promised to one more box: what is available beyond the reserve, while all
// promises together stay within one and a half times the machine's memory.
func (m Machine) free(p Allocated) int64 {
	return min(m.Available-m.reserve(), m.Memory/2*3-p.Memory)
}

// Fits tells whether there is room for one more box: by the same numbers by which boxes get their
// shares.
func (m Machine) Fits(p Allocated, next Share) bool {
	return p.CPUs+next.CPUs <= cpuPromises*m.CPUs && next.Memory <= m.free(p)
}

// Full is the share of a box when nothing else runs.
func (m Machine) Full() Share {
	return Share{CPUs: clamp(m.CPUs/2, min(minCPUs, max(m.CPUs, 1)), maxCPUs), Memory: clamp(m.Memory/boxesPlanned, minMemory, maxMemory)}
}

// NextShare is the share of the next box. fits is false if the machine lacks room even for the
// smallest share, which is returned all the same: what boxes really take is known only later.
func (m Machine) NextShare(p Allocated) (s Share, fits bool) {
	s = m.Full()
	for free := m.free(p); s.Memory > free && s.Memory > minMemory; {
		s.Memory /= 2
	}
	for p.CPUs+s.CPUs > cpuPromises*m.CPUs && s.CPUs > minCPUs {
		s.CPUs /= 2
	}
	return s, s.Memory <= m.free(p)
}

// Headroom estimates for people how many more boxes fit, if each gets the default share and takes
// all of it. It is no promise.
func (m Machine) Headroom(p Allocated) int {
	for n := 0; ; n++ {
		s, fits := m.NextShare(p)
		if !fits {
			return n
		}
		m.Available -= s.Memory
		p = Allocated{Boxes: p.Boxes + 1, CPUs: p.CPUs + s.CPUs, Memory: p.Memory + s.Memory}
	}
}

// Pool is how many machines of each key (Box.Template) are kept ready under PoolAuto; a number in the
// configuration is taken as it is.
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

// clamp is the largest low*2^k that exceeds neither n nor high, or low.
func clamp[T int | int64](n, low, high T) T {
	p := low
	for p*2 <= min(n, high) {
		p *= 2
	}
	return p
}
