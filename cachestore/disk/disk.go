// Package disk is the file system as the store uses it: few operations, each of which a test can
// make fail, with a contract for what survives a power cut. It knows nothing of chunks.
//
// FS and File are the operations, OS the operating system's. The tests of cachestore have one that
// forgets at every step what was not synced (faultdisk_test.go), which is how the store's order of
// writes is tested. Where a system has no holes in files, os_other.go makes do without.
//
// What survives a power cut: bytes of a file after Sync of that file; the creation, removal and
// renaming of a file after SyncDir of its directory. Nothing else.
package disk

import (
	"io"
	"io/fs"
)

// FS is a file system. Names are paths. Errors are *fs.PathError as of package os, so errors.Is
// finds fs.ErrNotExist and the system's numbers. Methods may be called at once.
type FS interface {
	// Create makes a file that must not exist, for reading and writing.
	Create(name string) (File, error)
	// Open opens a file, for reading only unless write is true.
	Open(name string, write bool) (File, error)
	// Rename replaces what newName was.
	Rename(oldName, newName string) error
	Remove(name string) error
	// Link gives a file another name, which must not exist. Not every pair of places allows it.
	Link(oldName, newName string) error
	// MakeDir makes a directory and its parents, private to the user, and is content when it is
	// there.
	MakeDir(name string) error
	// List returns the entries of a directory by name.
	List(dir string) ([]fs.DirEntry, error)
	// SyncDir flushes what was created, renamed, linked and removed in a directory.
	SyncDir(dir string) error
	// Free is the number of bytes that may still be written to the file system that holds dir.
	Free(dir string) (int64, error)
}

// File is an open file. Reads and writes at different places may go on at once.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Sync flushes the bytes that were written before. After an error it is not known which of them
	// are on disk, and a second Sync may succeed without writing them.
	Sync() error
	Truncate(size int64) error
	// Punch gives n bytes at off back to the file system: they read as zeros, the size stays.
	Punch(off, n int64) error
	// NextData finds the first stretch of data at or after off, io.EOF when only holes follow. Data
	// may be zeros.
	NextData(off int64) (start, end int64, err error)
	// Stat returns the size, and the bytes it takes on disk.
	Stat() (Stat, error)
}

// Stat is what is known of a file. Sizes are in bytes.
type Stat struct {
	Size      int64
	Allocated int64 // bytes on disk: less than Size when the file has holes
	// Links is how many names it has; 1 where the system does not say.
	Links int
}

// ReadFile reads a whole file of at most max bytes. A longer one is an error.
func ReadFile(fsys FS, name string, max int64) ([]byte, error) {
	f, err := fsys.Open(name, false)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size > max {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrInvalid}
	}
	b := make([]byte, st.Size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return nil, err
	}
	return b, nil
}
