// Package durable replaces files so that a crash, a full disk or a concurrent reader finds the old
// bytes or the new ones, never a part of them. It does not serialize writers: the last one wins,
// and writers that must not overlap take a lock (lock.go).
//
// WriteFile waits for the disk, Replace does not, Create is for a file that must be new; ReadJSON
// and WriteJSON are for records. TryLock and Lock are flock(2); Held tells whether somebody holds a
// lock, which shows that a process lives. Identify tells whether a file is still the one seen
// before, without reading it.
//
// Every package that keeps state writes it with this one, so it imports none of them. A file whose
// name begins with .tmp- was being written when its writer died.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// tempPrefix begins the name of a file that is being written, safe to remove after a crash.
const tempPrefix = ".tmp-"

// WriteFile makes data the content of the file at path, with permissions perm, whether or not the
// file exists. After a power loss the file has the old bytes or the new ones; SyncDir of its
// directory makes sure of the new ones. The error names the file and wraps the cause, for example
// syscall.ENOSPC.
func WriteFile(path string, data []byte, perm fs.FileMode) error {
	return write(path, data, perm, (*os.File).Sync)
}

// Replace is WriteFile without waiting some milliseconds for the disk. It is for files that are
// made anew after a power loss, which may leave them empty.
func Replace(path string, data []byte, perm fs.FileMode) error {
	return write(path, data, perm, func(*os.File) error { return nil })
}

// write writes a file beside path and renames it: both are in one file system.
func write(path string, data []byte, perm fs.FileMode, sync func(*os.File) error) error {
	if perm&0o111 != 0 {
		// A child that is forked meanwhile has the file open until it executes its own program, and
		// a file that is open for writing cannot be executed.
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
	}
	f, err := os.CreateTemp(filepath.Dir(path), tempPrefix+"*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = errors.Join(f.Chmod(perm), sync(f))
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// Create writes a file that must not exist and waits until it is on disk. The caller syncs its
// directory. After an error a part of the file may be left.
func Create(path string, data []byte, perm fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// Sweep removes what matches the patterns (path.Match) below dir, which were temporary files and
// directories of a process that died. The caller knows that nobody uses them. dir may be missing.
func Sweep(dir string, patterns ...string) error {
	var errs []error
	for _, pattern := range patterns {
		left, err := fs.Glob(os.DirFS(dir), pattern)
		errs = append(errs, err)
		for _, name := range left {
			errs = append(errs, os.RemoveAll(filepath.Join(dir, name)))
		}
	}
	return errors.Join(errs...)
}

// SyncDir makes sure that what was created, renamed or removed in dir survives a power loss.
func SyncDir(dir string) error { return Sync(dir) }

// Sync waits until files and directories are on the disk as they are, for example after Replace.
func Sync(paths ...string) error {
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}
