package workspace

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// small is the size, in bytes, up to which files are read and written directly: trying to clone
// them would cost more than it saves.
const small = 64 << 10

// transfer copies all of in to out. It shares blocks where the file system can, else copies in
// the kernel and preserves holes. Both files are at their start, out is empty, and fi describes
// in.
func transfer(out, in *os.File, fi fs.FileInfo) error {
	if fi.Size() > small {
		// Btrfs, XFS and others can share the blocks, which costs no time or space:
		// ioctl_ficlone(2).
		if err := unix.IoctlFileClone(int(out.Fd()), int(in.Fd())); err == nil {
			return nil
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); ok && st.Blocks*512 < fi.Size() {
			return transferSparse(out, in, fi.Size())
		}
	}
	_, err := io.Copy(out, in)
	return err
}

// transferSparse copies the parts of a file that are not holes.
func transferSparse(out, in *os.File, size int64) error {
	if err := out.Truncate(size); err != nil {
		return err
	}
	for at := int64(0); at < size; {
		data, err := unix.Seek(int(in.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // only a hole is left
			return nil
		}
		if err != nil {
			return err
		}
		hole, err := unix.Seek(int(in.Fd()), data, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if _, err := in.Seek(data, io.SeekStart); err != nil {
			return err
		}
		if _, err := out.Seek(data, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(out, in, hole-data); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		at = hole
	}
	return nil
}
