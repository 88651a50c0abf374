package git

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// errNotPlain is for a path that is no regular file: no link is followed, no pipe waited for.
var errNotPlain = errors.New("it is no regular file")

// OpenPlain opens a regular file for reading. It refuses symbolic links in every component of the
// path, as far as the kernel can guarantee that. It never blocks on a pipe and never reads from a
// device. Errors are *fs.PathError, including fs.ErrNotExist.
func OpenPlain(path string) (*os.File, error) {
	f, err := openNoLinks(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errNotPlain}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ReadPlain reads a regular file of at most limit bytes, opened as OpenPlain does.
func ReadPlain(path string, limit int64) ([]byte, error) {
	f, err := OpenPlain(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var data []byte
	if fi.Size() <= limit { // it may have grown since
		data, err = io.ReadAll(io.LimitReader(f, limit+1))
	}
	if err == nil && max(fi.Size(), int64(len(data))) > limit {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it has more than %d bytes", limit)}
	}
	return data, err
}

// ReadDir lists a directory. No component of its path may be a symbolic link. The entries are
// unsorted.
func ReadDir(path string) ([]fs.DirEntry, error) {
	f, err := openNoLinks(path, os.O_RDONLY|dirOnly)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	return entries, err
}
