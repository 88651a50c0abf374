package workspace

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// small files, in bytes, are read and written: asking for a clone first would cost more than it
// saves.
const small = 64 << 10

// transfer copies everything in has to out: by sharing blocks where the file system can, without
// filling holes, else in the kernel. Both are at their beginnings, out is empty, fi is in's. The
// number of bytes is in's size where blocks were shared or holes left.
func transfer(out, in *os.File, fi fs.FileInfo) (int64, error) {
	if fi.Size() <= small {
		return io.Copy(out, in)
	}
	// Btrfs, XFS and others share the blocks, which takes no time and no room: ioctl_ficlone(2).
	if err := unix.IoctlFileClone(int(out.Fd()), int(in.Fd())); err == nil {
		return fi.Size(), nil
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if ok && st.Blocks*512 < fi.Size() {
		return transferSparse(out, in, fi.Size())
	}
	return io.Copy(out, in)
}

// transferSparse copies the parts of a file that are not holes.
func transferSparse(out, in *os.File, size int64) (int64, error) {
	if err := out.Truncate(size); err != nil {
		return 0, err
	}
	for at := int64(0); at < size; {
		data, err := unix.Seek(int(in.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // only a hole is left
			return size, nil
		}
		if err != nil {
			return 0, err
		}
		hole, err := unix.Seek(int(in.Fd()), data, unix.SEEK_HOLE)
		if err != nil {
			return 0, err
		}
		if _, err := in.Seek(data, io.SeekStart); err != nil {
			return 0, err
		}
		if _, err := out.Seek(data, io.SeekStart); err != nil {
			return 0, err
		}
		if _, err := io.CopyN(out, in, hole-data); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		at = hole
	}
	return size, nil
}
