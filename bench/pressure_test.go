package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"
)

// machineAt makes a /proc with these counters: ticks of a hundredth of a second, microseconds of
// pressure, kilobytes of free memory, and the ticks of the one process.
func machineAt(t *testing.T, dir string, busy, idle, wait, steal, stalled, free, process int) procfs.FS {
	t.Helper()
	for name, text := range map[string]string{
		"stat":            fmt.Sprintf("cpu  %d 0 0 %d %d 0 0 %d 0 0\nbtime 1\n", busy, idle, wait, steal),
		"pressure/memory": fmt.Sprintf("some avg10=0.00 avg60=0.00 avg300=0.00 total=%d\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", stalled),
		"meminfo":         fmt.Sprintf("MemTotal: 9999 kB\nMemAvailable: %d kB\n", free),
		"net/dev":         "Inter-| Receive | Transmit\n face |bytes\n  lo: 9 0 0 0 0 0 0 0 9 0 0 0 0 0 0 0\neth0: 100 0 0 0 0 0 0 0 50 0 0 0 0 0 0 0\n",
		"7/stat":          fmt.Sprintf("7 (runsc) S 1 7 7 0 -1 0 0 0 3 0 %d 0 0 0 20 0 1 0 5 0 10 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n", process),
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	proc, err := procfs.NewFS(dir)
	if err != nil {
		t.Fatal(err)
	}
	return proc
}

// Ten seconds of a machine with two CPUs: five of them busy, three stolen.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	from := read(machineAt(t, dir, 1000, 1000, 100, 10, 1e6, 5000, 200), []int{7, 8})
	to := read(machineAt(t, dir, 1500, 2000, 300, 310, 3e6, 4000, 600), []int{7, 8})
	to.at = from.at.Add(10 * time.Second)
	got := between(from, to, 2)
	want := Load{CPU: 0.25, Steal: 0.15, IOWait: 0.1, Stalled: map[string]float64{"memory": 0.2}, Available: 4000 << 10, Box: BoxLoad{CPUs: 0.4, Memory: 10 * int64(os.Getpagesize())}}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if to.network != 150 {
		t.Errorf("%d bytes of network", to.network)
	}
	if why := whyNoPressure(reading{}); !strings.Contains(why, "CONFIG_PSI") || whyNoPressure(to) != "" {
		t.Errorf("%q", why)
	}
}

func TestBlame(t *testing.T) {
	for want, l := range map[string]Load{
		"":             {CPU: 1, Box: BoxLoad{CPUs: 2}, Stalled: map[string]float64{"cpu": 1}},
		"other mach":   {Steal: 0.2},
		"this machine": {Stalled: map[string]float64{"memory": 0.5}},
		"other proc":   {CPU: 1, Box: BoxLoad{CPUs: 0.5}, Stalled: map[string]float64{"cpu": 0.9}},
	} {
		if got := l.Blame(2); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%+v: %q, want %q", l, got, want)
		}
	}
	s := Result{Name: "work/a", Samples: []float64{1, 1, 5}, Loads: []Load{{}, {}, {Steal: 0.2}}}
	s.summary = summarize(s.Samples)
	if got := s.slowest(2); got != "slowest: work/a: 5.0 x its median: other machines of its host took 20% of this machine's CPU time" {
		t.Errorf("%q", got)
	}
}

// A sample gets what happened since its beginning, and its least free memory; a long run keeps a
// bounded timeline.
func TestWatchAttributes(t *testing.T) {
	dir, begun := t.TempDir(), time.Now()
	w := &watch{proc: machineAt(t, dir, 1000, 1000, 0, 0, 0, 5000, 0), begun: begun}
	for i, free := range []int64{1, 9, 3, 9} {
		w.history = append(w.history, reading{at: begun.Add(time.Duration(i-4) * time.Second), available: free << 20})
	}
	if l := w.last(2500); l.Available != 3<<20 {
		t.Errorf("least free memory %d", l.Available)
	}
	for i := range 3 * maxPoints {
		w.addPoint(reading{at: begun}, reading{at: begun.Add(time.Duration(i) * watchEvery)})
	}
	if n := len(w.timeline()); n < maxPoints/2 || n > maxPoints {
		t.Errorf("%d points", n)
	}
}
