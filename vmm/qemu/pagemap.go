package qemu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"agentbox/agentbox"
)

// memoryName is every guest's memory file, by which /proc/PID/maps shows its mapping.
const memoryName = "agentbox-memory"

type mapping struct {
	start, end uint64 // addresses
	offset     int64  // in the guest's memory
}

// guestMappings are a process's mappings of the memory file, by ascending address, as the kernel
// lists them. QEMU may map it in several pieces.
func guestMappings(all []*procfs.ProcMap) (found []mapping) {
	for _, m := range all {
		if strings.HasPrefix(m.Pathname, "/memfd:"+memoryName) {
			found = append(found, mapping{uint64(m.StartAddr), uint64(m.EndAddr), m.Offset})
		}
	}
	return found
}

// Bits of an entry of /proc/PID/pagemap (Documentation/admin-guide/mm/pagemap.rst).
const (
	pagemapPresent = 1 << 63
	pagemapSwapped = 1 << 62
	pagemapFile    = 1 << 61 // or shared anonymous memory
)

// privatePage reports whether an entry is a page of the process's own: in a private mapping of a
// file, one that was written to.
func privatePage(entry uint64) bool {
	return entry&(pagemapPresent|pagemapSwapped) != 0 && entry&pagemapFile == 0
}

type processMemory struct {
	pid  int
	maps []mapping
}

// openProcessMemory finds the guest's memory in the VMM. All size bytes must be mapped, in order
// and without a gap. The pid must be a child that has not been reaped, or it may be another's
// process.
func openProcessMemory(pid int, size int64) (*processMemory, error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return nil, err
	}
	all, err := process.ProcMaps()
	if err != nil {
		return nil, traceError(err)
	}
	maps := guestMappings(all)
	next := int64(0)
	for _, m := range maps {
		if m.offset != next {
			break
		}
		next += int64(m.end - m.start)
	}
	if next != size {
		return nil, fmt.Errorf("process %d maps %d bytes of guest memory, not %d", pid, next, size)
	}
	return &processMemory{pid, maps}, nil
}

// changed lists the pages that were written to since the private mapping was made, by ascending
// offset. The machine must stay frozen until the pages were read.
func (p *processMemory) changed() ([]candidate, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", p.pid))
	if err != nil {
		return nil, traceError(err)
	}
	defer f.Close()
	var c candidates
	buf := make([]byte, 64<<10)
	for _, m := range p.maps {
		for addr := m.start; addr < m.end; {
			n := min(uint64(len(buf)/8), (m.end-addr)/pageSize)
			if _, err := f.ReadAt(buf[:n*8], int64(addr/pageSize*8)); err != nil {
				return nil, fmt.Errorf("read the page map of process %d: %w", p.pid, err)
			}
			scanPagemap(buf[:n*8], m.offset+int64(addr-m.start), &c)
			addr += n * pageSize
		}
	}
	return c, nil
}

// scanPagemap adds the private pages among the entries of consecutive pages that begin at offset.
func scanPagemap(entries []byte, offset int64, c *candidates) {
	for i := 0; i+8 <= len(entries); i += 8 {
		if privatePage(binary.LittleEndian.Uint64(entries[i:])) {
			c.add(offset, offset+1)
		}
		offset += pageSize
	}
}

// readPages implements pageSource, writePages pageSink. Each takes one system call for a region,
// and neither stops nor traces the process.
func (p *processMemory) readPages(dst []byte, offset int64, pages *bitmap) error {
	return p.transfer(dst, offset, pages, unix.ProcessVMReadv)
}

func (p *processMemory) writePages(src []byte, offset int64, pages *bitmap) error {
	return p.transfer(src, offset, pages, unix.ProcessVMWritev)
}

type vmTransfer func(pid int, local []unix.Iovec, remote []unix.RemoteIovec, flags uint) (int, error)

// transfer moves the pages of one region between buf, where they are packed, and the process. A
// region has at most 128 runs of pages; the kernel takes 1024 ranges at once.
func (p *processMemory) transfer(buf []byte, offset int64, pages *bitmap, do vmTransfer) error {
	var remote []unix.RemoteIovec
	for _, run := range pages.runs() {
		remote = p.locate(remote, offset+run.off, run.len)
	}
	local := []unix.Iovec{{Base: &buf[0]}}
	local[0].SetLen(len(buf))
	n, err := do(p.pid, local, remote, 0)
	if err != nil {
		return traceError(fmt.Errorf("guest memory of process %d at %#x: %w", p.pid, offset, err))
	}
	if n != len(buf) {
		return fmt.Errorf("guest memory of process %d at %#x: %d of %d bytes", p.pid, offset, n, len(buf))
	}
	return nil
}

// locate appends the addresses of a range of guest memory, one range for each mapping.
func (p *processMemory) locate(to []unix.RemoteIovec, off, length int64) []unix.RemoteIovec {
	for _, m := range p.maps {
		end := m.offset + int64(m.end-m.start)
		if length == 0 || off < m.offset || off >= end {
			continue
		}
		n := min(length, end-off)
		to = append(to, unix.RemoteIovec{Base: uintptr(m.start) + uintptr(off-m.offset), Len: int(n)})
		off, length = off+n, length-n
	}
	return to
}

// traceError explains why a VMM's memory cannot be reached. As it is our own child, only a host
// setting forbids that.
func traceError(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return agentbox.Errorf(agentbox.Missing, "this host forbids reading a child's memory, which saving a machine needs: %w", err).
			WithHint("kernel.yama.ptrace_scope must be 0 or 1, and CAP_SYS_PTRACE or same-user tracing be allowed")
	}
	return err
}
