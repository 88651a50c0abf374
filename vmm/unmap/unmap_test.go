package unmap

import (
	"debug/elf"
	"slices"
	"testing"

	"github.com/prometheus/procfs"
)

func TestSegments(t *testing.T) {
	const maps = `00400000-00a3c000 r-xp 00000000 fe:00 1234                               /agentbox-guest (deleted)
00a3c000-00a4c000 r--p 0063c000 fe:00 1234                               /agentbox-guest (deleted)
00a4c000-00f00000 r--p 0064c000 fe:00 1234                               /agentbox-guest (deleted)
00f00000-00f40000 rw-p 00b00000 fe:00 1234                               /agentbox-guest (deleted)
00f40000-00f80000 rw-p 00000000 00:00 0
c000000000-c000400000 r--p 00000000 fe:00 99                             /a/b
7fff00000000-7fff00001000 r-xp 00000000 00:00 0                          [vdso]
`
	want := [][2]uint64{{0x400000, 0xf00000}}
	if got := segments(maps); !slices.Equal(got, want) || segments("") != nil {
		t.Errorf("%x", got)
	}
}

// The program goes on, with less of it in memory, unless it was built to be loaded anywhere.
func TestProgram(t *testing.T) {
	program, err := elf.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	self, err := procfs.Self()
	if err != nil {
		t.Fatal(err)
	}
	resident := func() uint64 {
		m, err := self.ProcSMapsRollup()
		if err != nil {
			t.Fatal(err)
		}
		return m.Rss
	}
	before := resident()
	if err := Program(); err != nil {
		t.Fatal(err)
	}
	if after := resident(); program.Type == elf.ET_EXEC && after >= before {
		t.Errorf("%d bytes were resident, and %d are after it was forgotten", before, after)
	}
	if err := Program(); err != nil {
		t.Errorf("again: %v", err)
	}
}
