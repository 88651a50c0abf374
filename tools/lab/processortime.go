package main

import (
	"os"
	"sort"
	"time"

	"github.com/prometheus/procfs"

	"agentbox/bench"
)

// processorTimeOf returns the processor time so far of the processes that mention text and of all
// their descendants, including children that ended and were waited for. It leaves out this process,
// whose own command line may mention text.
func processorTimeOf(text string) (sum time.Duration, err error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, err
	}
	all, err := proc.AllProcs()
	if err != nil {
		return 0, err
	}
	sort.Sort(all) // parents come before their children, unless ids have wrapped around
	counted := map[int]bool{os.Getpid(): false}
	for _, p := range all {
		st, err := p.Stat()
		if err != nil || p.PID == os.Getpid() || !counted[st.PPID] && !bench.Mentions(p, text) {
			continue
		}
		counted[p.PID] = true
		sum += time.Duration(st.UTime+st.STime+uint(st.CUTime+st.CSTime)) * time.Second / userHZ
	}
	return sum, nil
}

// userHZ is the number of clock ticks per second in /proc/PID/stat. It is 100 on every Linux
// architecture that we run on.
const userHZ = 100
