package disk

import (
	"io/fs"
	"os"
)

// OS is the file system of the operating system. Files are for their user alone (0600, directories
// 0700).
type OS struct{}

// Create, Open and the others are those of FS.
func (OS) Create(name string) (File, error) {
	return wrap(os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600))
}

func (OS) Open(name string, write bool) (File, error) {
	flag := os.O_RDONLY
	if write {
		flag = os.O_RDWR
	}
	return wrap(os.OpenFile(name, flag, 0))
}

func (OS) Rename(oldName, newName string) error   { return os.Rename(oldName, newName) }
func (OS) Link(oldName, newName string) error     { return os.Link(oldName, newName) }
func (OS) Remove(name string) error               { return os.Remove(name) }
func (OS) MakeDir(name string) error              { return os.MkdirAll(name, 0o700) }
func (OS) List(dir string) ([]fs.DirEntry, error) { return os.ReadDir(dir) }
func (OS) Free(dir string) (int64, error)         { return free(dir) }

// SyncDir opens the directory for it: renames are on disk only when it was synced itself.
func (OS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// osFile adds to *os.File what sparse files need.
type osFile struct{ *os.File }

func wrap(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// NewFile makes a File of an open file. Closing one closes the other.
func NewFile(f *os.File) File { return osFile{f} }

// maxWrite bounds one write to the system, in bytes. Linux takes as large a stretch of memory for
// a write as it can get, and memory that has lain unused for long is dear where the machine is a
// virtual one: docs/internals/measurements.md has the numbers.
const maxWrite = 128 << 10

func (o osFile) WriteAt(p []byte, off int64) (n int, err error) {
	for len(p) > n && err == nil {
		var m int
		m, err = o.File.WriteAt(p[n:min(n+maxWrite, len(p))], off+int64(n))
		n += m
	}
	return n, err
}

func (o osFile) Stat() (Stat, error) {
	info, err := o.File.Stat()
	if err != nil {
		return Stat{}, err
	}
	return Stat{Size: info.Size(), Allocated: allocated(info), Links: links(info)}, nil
}

// error says which operation on which file failed, as package os does.
func (o osFile) error(op string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: o.Name(), Err: err}
}
