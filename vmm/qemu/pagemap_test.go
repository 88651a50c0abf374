package qemu

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"agentbox/vmm/memfile"
)

const sampleMaps = `55d0c0000000-55d0c0400000 r--p 00000000 fe:00 1234  /usr/bin/qemu-system-x86_64
7f0000000000-7f0010000000 rw-p 00000000 00:01 77  /memfd:agentbox-memory (deleted)
7f0010000000-7f0030000000 rw-p 10000000 00:01 77  /memfd:agentbox-memory (deleted)
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0  [stack]
`

func TestGuestMappings(t *testing.T) {
	root := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(root, "7"), 0o700), os.WriteFile(filepath.Join(root, "7", "maps"), []byte(sampleMaps), 0o600)); err != nil {
		t.Fatal(err)
	}
	fs, err := procfs.NewFS(root)
	if err != nil {
		t.Fatal(err)
	}
	process, err := fs.Proc(7)
	if err != nil {
		t.Fatal(err)
	}
	all, err := process.ProcMaps()
	want := []mapping{{0x7f0000000000, 0x7f0010000000, 0}, {0x7f0010000000, 0x7f0030000000, 0x10000000}}
	if got := guestMappings(all); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %x, %v", got, err)
	}
}

func TestScanPagemap(t *testing.T) {
	var b []byte
	for _, entry := range []uint64{
		0,                            // never touched
		pagemapPresent | pagemapFile, // read from the template
		pagemapPresent | 0x1234,      // written
		pagemapSwapped,               // written, then swapped out
		pagemapSwapped | pagemapFile, // shared, swapped out
		pagemapPresent | 1<<55,       // written, soft-dirty
	} {
		b = binary.LittleEndian.AppendUint64(b, entry)
	}
	var c candidates
	scanPagemap(b, regionSize-3*pageSize, &c) // the last three lie in the second region
	if len(c) != 2 || c[0].offset != 0 || c[1].offset != regionSize || c[0].pages.count() != 1 || !c[0].pages.has(regionPages-1) ||
		c[1].pages.count() != 2 || !c[1].pages.has(0) || !c[1].pages.has(2) {
		t.Errorf("got %+v", c)
	}
}

func TestLocateSplitsAtMappings(t *testing.T) {
	p := processMemory{maps: []mapping{{0x1000, 0x3000, 0}, {0x9000, 0xa000, 0x2000}}}
	got := p.locate(nil, 0x1000, 0x2000)
	want := []unix.RemoteIovec{{Base: 0x2000, Len: 0x1000}, {Base: 0x9000, Len: 0x1000}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %x", got)
	}
}

// The real thing, on ourselves: a private mapping of a sealed memory file, some pages of which are
// written.
func TestChangedPagesOfThisProcess(t *testing.T) {
	const size = 2 * regionSize
	f, err := memfile.New(memoryName, size)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("template"), 5*pageSize); err != nil {
		t.Fatal(err)
	}
	if err := memfile.Seal(f); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("a sealed file was written")
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	mem[regionSize+7] = 1
	_ = mem[5*pageSize]
	p, err := openProcessMemory(os.Getpid(), size)
	if err != nil {
		t.Fatal(err)
	}
	changed, err := p.changed()
	if err != nil {
		t.Fatal(err)
	}
	if len(changed) != 1 || changed[0].offset != regionSize || changed[0].pages.count() != 1 || !changed[0].pages.has(0) {
		t.Errorf("changed pages: %+v", changed)
	}
	var pages bitmap
	pages.set(5)
	page := make([]byte, pageSize)
	if err := p.readPages(page, 0, &pages); err != nil || string(page[:8]) != "template" {
		t.Errorf("read %q, %v", page[:8], err)
	}
	copy(page, "injected")
	if err := p.writePages(page, 0, &pages); err != nil || string(mem[5*pageSize:5*pageSize+8]) != "injected" {
		t.Errorf("wrote %q, %v", mem[5*pageSize:5*pageSize+8], err)
	}
}
