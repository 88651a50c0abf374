// Package unmap lets a program that rests keep little of itself in memory. It knows nothing else:
// the first process of a gVisor machine uses it, and links little.
package unmap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Program unmaps the pages of this program that the start needed, and those that the kernel mapped
// around them. They stay in the page cache, from where the kernel maps again what is used again, in
// small pieces.
//
// It drops segments that cannot be written to only: their pages are the file's. A
// position-independent program has pages among them that the loader has written to, so it keeps
// them all.
func Program() error {
	all, err := program()
	for _, s := range all {
		if errno := madvise(s[0], s[1]-s[0], unix.MADV_DONTNEED); errno != 0 {
			err = errors.Join(err, fmt.Errorf("madvise: %w", errno))
		}
	}
	return err
}

// program is what Program unmaps, in whole pages and cut, which a mapping stays.
var program = sync.OnceValues(func() (all [][2]uint64, err error) {
	if fixed, err := isFixed("/proc/self/exe"); err != nil || !fixed {
		return nil, err
	}
	maps, err := os.ReadFile("/proc/self/maps")
	page := uint64(os.Getpagesize())
	for _, s := range segments(string(maps)) {
		// The last page may be shared with the next segment.
		start, end := (s[0]+page-1)/page*page, s[1]/page*page
		if end > start {
			cut(start, end)
			all = append(all, [2]uint64{start, end})
		}
	}
	return all, err
})

// isFixed tells whether an ELF file says itself at which addresses it is loaded (ET_EXEC).
func isFixed(file string) (bool, error) {
	f, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var header [18]byte
	_, err = io.ReadFull(f, header[:])
	return binary.NativeEndian.Uint16(header[16:]) == 2, err
}

// segments are the ranges of the program that cannot be written to, by /proc/PID/maps. The lowest mapping is
// one of the program. Mappings side by side are one range, of which an earlier cut made many.
func segments(maps string) (out [][2]uint64) {
	var program []string
	for line := range strings.Lines(maps) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		if program == nil {
			program = f[3:5] // device and inode
		}
		from, to, _ := strings.Cut(f[0], "-")
		start, startErr := strconv.ParseUint(from, 16, 64)
		end, endErr := strconv.ParseUint(to, 16, 64)
		s := [2]uint64{start, end}
		switch {
		case errors.Join(startErr, endErr) != nil || !slices.Equal(f[3:5], program) || strings.Contains(f[1], "w"):
		case len(out) > 0 && out[len(out)-1][1] == s[0]:
			out[len(out)-1][1] = s[1]
		default:
			out = append(out, s)
		}
	}
	return out
}

// piece is as much as Linux maps around a page that is used.
const piece = 64 << 10

// cut makes mappings of one piece each, by advice that means nothing for a file like this one and
// that only every second one is given. Without it a page that is used brings along all that the
// page cache holds in one unit with it, up to 2 MiB (Linux 6.18). A kernel that does not know the
// advice maps more; nothing else depends on it.
func cut(start, end uint64) {
	for start = (start + piece - 1) / piece * piece; start+piece <= end; start += 2 * piece {
		madvise(start, piece, unix.MADV_NOHUGEPAGE)
	}
}

func madvise(start, size uint64, advice uintptr) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_MADVISE, uintptr(start), uintptr(size), advice)
	return errno
}
