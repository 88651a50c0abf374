package qemu

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"agentbox/vmm/child"
	"agentbox/vmm/statedir"
)

type extent struct{ off, len int64 }

// nextExtent finds the first extent at or after off within the first size bytes; io.EOF if there is
// only a hole. It moves the file's offset, which nothing else here uses. Without SEEK_DATA a file
// system reports the whole file as one extent.
func nextExtent(f *os.File, off, size int64) (extent, error) {
	start, err := unix.Seek(int(f.Fd()), off, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) || err == nil && start >= size {
		return extent{}, io.EOF
	}
	if err != nil {
		return extent{}, &os.PathError{Op: "seek data", Path: f.Name(), Err: err}
	}
	end, err := unix.Seek(int(f.Fd()), start, unix.SEEK_HOLE)
	if err != nil {
		return extent{}, &os.PathError{Op: "seek hole", Path: f.Name(), Err: err}
	}
	return extent{start, min(end, size) - start}, nil
}

// createSized makes a new file of the given size, all of it a hole. An existing one is an error
// that wraps os.ErrExist.
func createSized(path string, size int64) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, statedir.HostError(err)
	}
	if err := f.Truncate(size); err != nil {
		f.Close()
		os.Remove(path)
		return nil, statedir.HostError(err)
	}
	return f, nil
}

// copySparse fills dst, a hole of src's size, with src: by sharing extents where the file system
// can, else range by range inside the kernel, so that holes stay holes. It does not sync.
func copySparse(ctx context.Context, dst, src *os.File) error {
	if err := unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())); err == nil {
		return nil
	}
	info, err := src.Stat()
	if err != nil {
		return err
	}
	for off := int64(0); ; {
		e, err := nextExtent(src, off, info.Size())
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = copyExtent(ctx, dst, src, e)
		}
		if err != nil {
			return statedir.HostError(err)
		}
		off = e.off + e.len
	}
}

// copyStep bounds how long a copy goes on after its context has ended, in bytes.
const copyStep = 16 << 20

// copyExtent copies inside the kernel, in steps, or else through our own memory.
func copyExtent(ctx context.Context, dst, src *os.File, e extent) error {
	for e.len > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		from, to, step := e.off, e.off, min(e.len, copyStep)
		n, err := unix.CopyFileRange(int(src.Fd()), &from, int(dst.Fd()), &to, int(step), 0)
		if child.IsAny(err, cannotCopy) {
			var copied int64
			copied, err = io.CopyBuffer(io.NewOffsetWriter(dst, e.off), io.NewSectionReader(src, e.off, step), make([]byte, 1<<20))
			n = int(copied)
		}
		if err != nil {
			return &os.PathError{Op: "copy to", Path: dst.Name(), Err: err}
		}
		if n == 0 {
			return &os.PathError{Op: "copy from", Path: src.Name(), Err: io.ErrUnexpectedEOF}
		}
		e.off, e.len = e.off+int64(n), e.len-int64(n)
	}
	return nil
}

var cannotCopy = []error{unix.EXDEV, unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP}
