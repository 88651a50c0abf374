package disk

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"
)

// Sync flushes the bytes. It leaves out times, which nothing here reads.
func (o osFile) Sync() error { return o.error("sync", unix.Fdatasync(int(o.Fd()))) }

// Punch falls back to zeros where the file system makes no holes.
func (o osFile) Punch(off, n int64) error {
	err := unix.Fallocate(int(o.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return writeZeros(o, off, n)
	}
	return o.error("punch", err)
}

// NextData asks the file system, which may call data what is zeros, as for space that was reserved,
// but never a hole what is not.
func (o osFile) NextData(off int64) (start, end int64, err error) {
	start, err = unix.Seek(int(o.Fd()), off, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return 0, 0, io.EOF
	}
	if err != nil {
		return 0, 0, o.error("seek", err)
	}
	end, err = unix.Seek(int(o.Fd()), start, unix.SEEK_HOLE)
	return start, end, o.error("seek", err)
}
