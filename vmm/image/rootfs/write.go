package rootfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	erofs "github.com/erofs/go-erofs"
)

// Write writes the tree to f, an empty file, as an erofs image: uncompressed, 4 KiB blocks, names
// sorted, no UUID, the tree's epoch as time of the build. Equal trees give equal bytes. Write calls
// progress, which may be nil, with the number of bytes written so far. It fails if the content of a
// file cannot be read, and after an error f holds no image. It does not sync f.
func (t *Tree) Write(ctx context.Context, f *os.File, progress func(done int64)) error {
	v := newView(t.root.Inode)
	out := &progressFile{ctx: ctx, f: f, progress: progress}
	w := erofs.Create(out, erofs.WithBuildTime(uint64(t.epoch.Unix()), 0), erofs.WithBlockSize(blockSize))
	if err := w.CopyFrom(v); err != nil {
		return fmt.Errorf("lay out the image: %w", err)
	}
	if err := w.Close(); err != nil {
		return errors.Join(ctx.Err(), fmt.Errorf("write the image: %w", err))
	}
	if err := patch(f, t.root.Inode); err != nil {
		return fmt.Errorf("write the image's hard links and small files: %w", err)
	}
	return ctx.Err()
}

// progressFile is a file that cannot be written once ctx has ended, and that reports progress.
type progressFile struct {
	ctx      context.Context
	f        *os.File
	progress func(int64)
	done     int64
}

func (pf *progressFile) Write(p []byte) (int, error) {
	if err := pf.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := pf.f.Write(p)
	pf.done += int64(n)
	if pf.progress != nil {
		pf.progress(pf.done)
	}
	return n, err
}

func (pf *progressFile) Seek(offset int64, whence int) (int64, error) {
	return pf.f.Seek(offset, whence)
}

var _ io.WriteSeeker = (*progressFile)(nil)
