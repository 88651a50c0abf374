package git

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// errNotPlain is a path that is not what it should be: a link is never followed, a pipe never
// waited for.
var errNotPlain = errors.New("it is no regular file")

// OpenPlain opens a regular file for reading. No component of the path may be a symbolic link, as
// far as the kernel can promise that, and nothing that is no file is waited for or touched. Errors
// are *fs.PathError, fs.ErrNotExist among them.
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

// ReadPlain reads a regular file of at most limit bytes, found as OpenPlain does.
func ReadPlain(path string, limit int64) ([]byte, error) {
	f, err := OpenPlain(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it has more than %d bytes", limit)}
	}
	return data, err
}

// ReadDir lists a directory, no component of whose path is a symbolic link. The entries are in no
// order.
func ReadDir(path string) ([]fs.DirEntry, error) {
	f, err := openNoLinks(path, os.O_RDONLY|dirOnly)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	return entries, err
}
