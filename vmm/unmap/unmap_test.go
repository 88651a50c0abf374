package unmap

import (
	"debug/elf"
	"testing"

	"github.com/prometheus/procfs"
)

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
