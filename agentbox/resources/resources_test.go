package resources

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/procfs"
)

func TestFull(t *testing.T) {
	for _, c := range []struct {
		cpus   int
		memory int64
		want   Share
	}{
		{1, 2, Share{1, 1 * gib}},
		{2, 4, Share{2, 1 * gib}},
		{2, 24, Share{2, 2 * gib}},
		{4, 8, Share{2, 1 * gib}},
		{8, 16, Share{4, 2 * gib}},
		{6, 15, Share{2, 2 * gib}}, // 16 GiB when the firmware has had its part
		{12, 32, Share{4, 4 * gib}},
		{16, 64, Share{8, 8 * gib}},
		{128, 512, Share{8, 8 * gib}},
	} {
		if got := (Machine{CPUs: c.cpus, Memory: c.memory * gib}).Full(); got != c.want {
			t.Errorf("%d CPUs, %d GiB: %+v, want %+v", c.cpus, c.memory, got, c.want)
		}
	}
}

func TestNextShare(t *testing.T) {
	laptop := Machine{CPUs: 8, Memory: 16 * gib}
	for what, c := range map[string]struct {
		available int64
		promised  Allocated
		want      Share
		fits      bool
	}{
		"idle":                        {12 * gib, Allocated{}, Share{4, 2 * gib}, true},
		"a browser has taken most":    {3 * gib, Allocated{}, Share{4, 1 * gib}, true},
		"nothing is left":             {2 * gib, Allocated{}, Share{4, 1 * gib}, false},
		"much is promised, not taken": {10 * gib, Allocated{11, 16, 23 * gib}, Share{4, 1 * gib}, true},
		"all is promised":             {10 * gib, Allocated{12, 16, 24 * gib}, Share{4, 1 * gib}, false},
		"the CPUs are promised":       {10 * gib, Allocated{6, 24, 12 * gib}, Share{2, 2 * gib}, true},
		"some of the CPUs":            {10 * gib, Allocated{6, 22, 12 * gib}, Share{2, 2 * gib}, true},
		"one box took a great deal":   {9 * gib, Allocated{1, 4, 64 * gib}, Share{4, 1 * gib}, false},
	} {
		m := laptop
		m.Available = c.available
		if got, fits := m.NextShare(c.promised); got != c.want || fits != c.fits {
			t.Errorf("%s: %+v %v, want %+v %v", what, got, fits, c.want, c.fits)
		}
	}
}

// Ten agents work on a laptop of 16 GiB, of which its user's own programs have 4: each box really
// takes half a gigabyte, or one, or all that it was promised.
func TestTenAgentsOnALaptop(t *testing.T) {
	for _, c := range []struct {
		takes int64 // of what was promised, in tenths
		fit   int
	}{{3, 10}, {5, 10}, {10, 5}} {
		m, p, fit := Machine{CPUs: 8, Memory: 16 * gib, Available: 12 * gib}, Allocated{}, 0
		for range 10 {
			s, fits := m.NextShare(p)
			if fits {
				fit++
			}
			m.Available -= s.Memory * c.takes / 10
			p = Allocated{p.Boxes + 1, p.CPUs + s.CPUs, p.Memory + s.Memory}
		}
		if fit != c.fit {
			t.Errorf("boxes that take %d0%% of their memory: %d of 10 fit, want %d", c.takes, fit, c.fit)
		}
		if c.takes < 10 && m.Available < m.reserve() {
			t.Errorf("boxes that take %d0%% of their memory leave %d MiB", c.takes, m.Available>>20)
		}
	}
}

func TestFits(t *testing.T) {
	laptop := Machine{CPUs: 8, Memory: 16 * gib, Available: 8 * gib}
	for what, c := range map[string]struct {
		promised Allocated
		next     Share
		want     bool
	}{
		"room":                  {Allocated{}, Share{4, 4 * gib}, true},
		"too much memory":       {Allocated{}, Share{4, 7 * gib}, false}, // a tenth stays available
		"too many promises":     {Allocated{Memory: 21 * gib}, Share{4, 4 * gib}, false},
		"the last CPUs":         {Allocated{CPUs: 20}, Share{4, gib}, true},
		"more CPUs than 3 each": {Allocated{CPUs: 21}, Share{4, gib}, false},
	} {
		if got := laptop.Fits(c.promised, c.next); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

func TestHeadroom(t *testing.T) {
	for what, c := range map[string]struct {
		m    Machine
		p    Allocated
		want int
	}{
		"a laptop":        {Machine{8, 16 * gib, 11 * gib}, Allocated{}, 5},
		"a full one":      {Machine{8, 16 * gib, 2 * gib}, Allocated{}, 0},
		"all is promised": {Machine{8, 16 * gib, 14 * gib}, Allocated{12, 24, 24 * gib}, 0},
		"a server":        {Machine{64, 256 * gib, 250 * gib}, Allocated{}, 28},
		"nothing":         {Machine{}, Allocated{}, 0},
	} {
		if got := c.m.Headroom(c.p); got != c.want {
			t.Errorf("%s: %d, want %d", what, got, c.want)
		}
	}
}

func TestPool(t *testing.T) {
	for _, c := range []struct {
		cpus      int
		available int64
		want      int
	}{{1, 7, 0}, {2, 8, 1}, {2, 64, 1}, {3, 20, 1}, {4, 8, 1}, {4, 7, 0}, {8, 20, 2}, {64, 250, 4}} {
		if got := (Machine{CPUs: c.cpus, Memory: 256 * gib, Available: c.available * gib}).Pool(); got != c.want {
			t.Errorf("%d CPUs, %d GiB available: %d, want %d", c.cpus, c.available, got, c.want)
		}
	}
}

func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	for content, want := range map[string]Machine{
		"MemTotal: 16384 kB\nMemFree: 1 kB\nMemAvailable: 8192 kB\n": {Memory: 16 << 20, Available: 8 << 20},
		"MemTotal: 16384 kB\n": {},
		"":                     {},
	} {
		if err := os.WriteFile(filepath.Join(dir, "meminfo"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		fs, err := procfs.NewFS(dir)
		if err != nil {
			t.Fatal(err)
		}
		got, err := measure(fs)
		if got.CPUs = 0; got != want || (err == nil) != (want.Memory > 0) {
			t.Errorf("%q: %+v, %v", content, got, err)
		}
	}
}
