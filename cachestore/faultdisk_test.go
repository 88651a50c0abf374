package cachestore

import (
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"

	"agentbox/cachestore/disk"
)

// faultDisk is the operating system's file system with a plan: at the step with number at, do
// happens. A step is whatever changes something.
type faultDisk struct {
	disk.OS
	mu   sync.Mutex
	step int
	at   int
	do   func(op string) error // nil goes on
	log  *journal              // for power cuts; may be nil
	full bool                  // Free says 0
	dark bool                  // from the step on, everything fails
}

func (fd *faultDisk) next(op string) error {
	fd.mu.Lock()
	fd.step++
	hit := fd.step == fd.at || fd.dark && fd.at > 0 && fd.step > fd.at
	fd.mu.Unlock()
	if hit && fd.do != nil {
		return fd.do(op)
	}
	return nil
}

func (fd *faultDisk) steps() int {
	fd.mu.Lock()
	defer fd.mu.Unlock()
	return fd.step
}

func (fd *faultDisk) Create(name string) (disk.File, error) {
	if err := fd.next("create " + name); err != nil {
		return nil, &fs.PathError{Op: "create", Path: name, Err: err}
	}
	f, err := fd.OS.Create(name)
	if err != nil {
		return nil, err
	}
	fd.log.created(name)
	return &faultFile{f, fd, name}, nil
}

func (fd *faultDisk) Open(name string, write bool) (disk.File, error) {
	f, err := fd.OS.Open(name, write)
	if err != nil {
		return nil, err
	}
	return &faultFile{f, fd, name}, nil
}

func (fd *faultDisk) Rename(oldName, newName string) error {
	if err := fd.next("rename " + newName); err != nil {
		return &fs.PathError{Op: "rename", Path: newName, Err: err}
	}
	fd.log.renamed(oldName, newName)
	return fd.OS.Rename(oldName, newName)
}

func (fd *faultDisk) Remove(name string) error {
	if err := fd.next("remove " + name); err != nil {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	fd.log.removed(name)
	return fd.OS.Remove(name)
}

func (fd *faultDisk) Link(oldName, newName string) error {
	if err := fd.next("link " + newName); err != nil {
		return &fs.PathError{Op: "link", Path: newName, Err: err}
	}
	return fd.OS.Link(oldName, newName)
}

func (fd *faultDisk) SyncDir(dir string) error {
	if err := fd.next("syncdir " + dir); err != nil {
		return &fs.PathError{Op: "sync", Path: dir, Err: err}
	}
	fd.log.syncedDir(dir)
	return fd.OS.SyncDir(dir)
}

func (fd *faultDisk) Free(dir string) (int64, error) {
	// The index asks before each write: that is a step of it.
	if err := fd.next("free"); err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: dir, Err: syscall.EIO}
	}
	if fd.full {
		return 0, nil
	}
	return fd.OS.Free(dir)
}

type faultFile struct {
	disk.File
	d    *faultDisk
	name string
}

func (f *faultFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.d.next("write " + f.name); err != nil {
		// Half of it arrives, as when a disk fills up.
		n, _ := f.File.WriteAt(p[:len(p)/2], off)
		return n, &fs.PathError{Op: "write", Path: f.name, Err: err}
	}
	f.d.log.writing(f.name, f.File, off, len(p))
	return f.File.WriteAt(p, off)
}

func (f *faultFile) Sync() error {
	if err := f.d.next("sync " + f.name); err != nil {
		return &fs.PathError{Op: "sync", Path: f.name, Err: err}
	}
	f.d.log.synced(f.name)
	return f.File.Sync()
}

func (f *faultFile) Punch(off, n int64) error {
	if err := f.d.next("punch " + f.name); err != nil {
		return &fs.PathError{Op: "punch", Path: f.name, Err: err}
	}
	f.d.log.writing(f.name, f.File, off, int(n))
	return f.File.Punch(off, n)
}

func (f *faultFile) Truncate(size int64) error {
	if err := f.d.next("truncate " + f.name); err != nil {
		return &fs.PathError{Op: "truncate", Path: f.name, Err: err}
	}
	return f.File.Truncate(size)
}

var faults = []error{syscall.ENOSPC, syscall.EIO, syscall.EROFS}

// journal remembers how to undo what a power cut would undo: bytes that were not synced, and names
// whose directory was not. A nil journal remembers nothing.
type journal struct {
	mu    sync.Mutex
	bytes map[string][]overwritten // by the file's present name
	names []renaming
}

type overwritten struct {
	off int64
	old []byte
}

// renaming is a change of a directory. Its undo is to bring back what was there.
type renaming struct {
	old, new string // old "": created; new "": removed
	saved    string // a hard link to what was removed or replaced, "" for nothing
}

func newJournal() *journal { return &journal{bytes: map[string][]overwritten{}} }

func (j *journal) created(name string) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.names = append(j.names, renaming{new: name})
}

// save keeps a file by another name, outside of the store's directories.
func (j *journal) save(name string) string {
	if _, err := os.Stat(name); err != nil {
		return ""
	}
	saved := filepath.Join(filepath.Dir(filepath.Dir(name)), "saved-"+filepath.Base(name)+"-"+strings.Repeat("i", len(j.names)+1))
	if err := os.Link(name, saved); err != nil {
		return ""
	}
	return saved
}

func (j *journal) renamed(old, name string) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.names = append(j.names, renaming{old: old, new: name, saved: j.save(name)})
	if list, ok := j.bytes[old]; ok {
		delete(j.bytes, old)
		j.bytes[name] = list
	}
}

func (j *journal) removed(name string) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.names = append(j.names, renaming{old: name, saved: j.save(name)})
}

func (j *journal) syncedDir(dir string) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	var left []renaming
	for _, r := range j.names {
		if filepath.Dir(r.new) == filepath.Clean(dir) || r.new == "" && filepath.Dir(r.old) == filepath.Clean(dir) {
			continue
		}
		left = append(left, r)
	}
	j.names = left
}

func (j *journal) writing(name string, f disk.File, off int64, n int) {
	if j == nil {
		return
	}
	old := make([]byte, n)
	got, _ := f.ReadAt(old, off)
	j.mu.Lock()
	defer j.mu.Unlock()
	// What a name stood for when the file was opened may have another name by now.
	name = j.present(name)
	j.bytes[name] = append(j.bytes[name], overwritten{off, old[:max(got, 0)]})
	if got < n { // the file grew: what a cut leaves of that is zeros
		j.bytes[name] = append(j.bytes[name], overwritten{off + int64(got), make([]byte, n-got)})
	}
}

func (j *journal) present(name string) string {
	for _, r := range j.names {
		if r.old == name && r.new != "" {
			name = r.new
		}
	}
	return name
}

func (j *journal) synced(name string) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.bytes, j.present(name))
}

// cut is the power cut: what was not synced is undone, except for the first half of the last page
// that was written to each file, which arrived.
func (j *journal) cut() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var files []string
	for name := range j.bytes {
		files = append(files, name)
	}
	sort.Strings(files)
	for _, name := range files {
		if err := undoBytes(name, j.bytes[name]); err != nil {
			return err
		}
	}
	for i := len(j.names) - 1; i >= 0; i-- {
		j.names[i].undo()
	}
	return nil
}

const tornPage = 4096

func undoBytes(name string, list []overwritten) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if os.IsNotExist(err) {
		return nil // removed since
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for i := len(list) - 1; i >= 0; i-- {
		u := list[i]
		if i == len(list)-1 {
			keep := min(len(u.old), tornPage/2)
			u.off, u.old = u.off+int64(keep), u.old[keep:]
		}
		if _, err := f.WriteAt(u.old, u.off); err != nil {
			return err
		}
	}
	return nil
}

func (r renaming) undo() {
	switch {
	case r.new == "": // removed
		if r.saved != "" {
			os.Rename(r.saved, r.old)
		}
	case r.old == "": // created
		os.Remove(r.new)
	default:
		os.Rename(r.new, r.old)
		if r.saved != "" {
			os.Rename(r.saved, r.new)
		}
	}
}
