package bench

import (
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// Load is what this machine, and the boxes' processes on it, did during one sample. Parts are of one:
// of the time of all CPUs, or of the sample's time.
type Load struct {
	CPU    float64 `json:"cpu"`    // busy
	Steal  float64 `json:"steal"`  // wanted, but used by other machines of the same host
	IOWait float64 `json:"iowait"` // idle while something waited for a disk
	// Stalled is the part of the time in which some process waited for the resource (PSI): cpu, memory,
	// io. It is nil where the kernel does not count this.
	Stalled   map[string]float64 `json:"stalled,omitempty"`
	Available int64              `json:"available"` // bytes of memory that were free at least
	Network   int64              `json:"network"`   // bytes in and out, without loopback
	Box       BoxLoad            `json:"box"`
}

// BoxLoad is what the processes of the benchmark's boxes did: the machines and their supervisors.
type BoxLoad struct {
	CPUs   float64 `json:"cpus"`   // how many they used on average
	Memory int64   `json:"memory"` // resident bytes at the end; pages that several share count for each
	Faults int64   `json:"faults"` // that waited for a disk
	Disk   int64   `json:"disk"`   // bytes read and written
}

// reading is one look at the machine. All but the memory only grows.
type reading struct {
	at        time.Time
	cpu       procfs.CPUStat
	stalled   map[string]time.Duration // absent: the kernel does not count it
	available int64
	network   int64
	boxes     map[int]procReading // by process
}

// procReading is a look at a process.
type procReading struct {
	cpu                  float64 // seconds
	memory, faults, disk int64
}

// resources are those whose pressure Linux counts.
var resources = []string{"cpu", "memory", "io"}

// read looks at the machine and at processes of boxes. What it cannot find out stays zero.
func read(proc procfs.FS, boxes []int) reading {
	r := reading{at: time.Now(), stalled: map[string]time.Duration{}, boxes: map[int]procReading{}}
	if s, err := proc.Stat(); err == nil {
		r.cpu = s.CPUTotal
	}
	for _, name := range resources {
		if s, err := proc.PSIStatsForResource(name); err == nil && s.Some != nil {
			r.stalled[name] = time.Duration(s.Some.Total) * time.Microsecond
		}
	}
	if m, err := proc.Meminfo(); err == nil && m.MemAvailableBytes != nil {
		r.available = int64(*m.MemAvailableBytes)
	}
	if devices, err := proc.NetDev(); err == nil {
		for name, d := range devices {
			// The other end of a box's cable would count a box's bytes twice.
			if name != "lo" && !strings.HasPrefix(name, "veth") {
				r.network += int64(d.RxBytes + d.TxBytes)
			}
		}
	}
	for _, pid := range boxes {
		if p, ok := readProcess(proc, pid); ok {
			r.boxes[pid] = p
		}
	}
	return r
}

// readProcess returns false for a process that has ended.
func readProcess(proc procfs.FS, pid int) (out procReading, ok bool) {
	p, err := proc.Proc(pid)
	if err != nil {
		return out, false
	}
	s, err := p.Stat()
	if err != nil {
		return out, false
	}
	out = procReading{cpu: s.CPUTime(), memory: int64(s.ResidentMemory()), faults: int64(s.MajFlt)}
	if io, err := p.IO(); err == nil {
		out.disk = int64(io.ReadBytes + io.WriteBytes)
	}
	return out, true
}

// between returns what happened between two readings. cpus is the number of the machine's.
func between(from, to reading, cpus int) Load {
	took := to.at.Sub(from.at).Seconds()
	l := Load{Available: min(from.available, to.available), Network: to.network - from.network}
	if took <= 0 {
		return l
	}
	idle, wait := to.cpu.Idle-from.cpu.Idle, to.cpu.Iowait-from.cpu.Iowait
	all := took * float64(cpus)
	l.Steal, l.IOWait = part((to.cpu.Steal-from.cpu.Steal)/all), part(wait/all)
	l.CPU = part(1 - (idle+wait)/all - l.Steal)
	for name, total := range to.stalled {
		if before, ok := from.stalled[name]; ok {
			if l.Stalled == nil {
				l.Stalled = map[string]float64{}
			}
			l.Stalled[name] = part((total - before).Seconds() / took)
		}
	}
	for pid, p := range to.boxes {
		was, ok := from.boxes[pid]
		if !ok {
			was = p // what it did before it was found is unknown
		}
		l.Box.CPUs += (p.cpu - was.cpu) / took
		l.Box.Memory += p.memory
		l.Box.Faults += p.faults - was.faults
		l.Box.Disk += p.disk - was.disk
	}
	l.Box.CPUs = ratio(l.Box.CPUs, 1)
	return l
}

// part bounds a part to what it can be: counters and clock are not read at one instant.
func part(v float64) float64 { return ratio(min(max(v, 0), 1), 1) }

func percent(v float64) string { return fmt.Sprintf("%.0f%%", 100*v) }

// Blame says whether something else than the box made a sample slow, "" if nothing shows that.
// cpus is the number of the machine's.
func (l Load) Blame(cpus int) string {
	others := l.CPU - l.Box.CPUs/float64(cpus)
	switch {
	case l.Steal > 0.05:
		return "other machines of its host took " + percent(l.Steal) + " of this machine's CPU time"
	case l.Stalled["memory"] > 0.1:
		return "this machine was short of memory for " + percent(l.Stalled["memory"]) + " of the time"
	case others > 0.3 && l.Stalled["cpu"] > 0.3:
		return "other processes used " + percent(others) + " of this machine's CPU time"
	case l.IOWait > 0.2:
		return "this machine's disk was busy for " + percent(l.IOWait) + " of its CPU time"
	}
	return ""
}
