package durable

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// ErrHeld is the error for a lock that somebody else holds.
var ErrHeld = errors.New("it is held")

// lookEvery is how often Lock tries again: waiting in the kernel cannot be cancelled.
const lookEvery = 20 * time.Millisecond

// TryLock takes an exclusive lock on the file at path, which it creates with permissions 0600 if
// need be. The lock excludes other goroutines as well as other processes. It is held until the file
// is closed, at the latest by the end of the process and of every process that inherits the file.
// The error wraps ErrHeld if somebody else holds the lock, and names the file.
func TryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := TryLockFile(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// TryLockFile is TryLock for an open file or directory, which stays open.
func TryLockFile(f *os.File) error { return flock(f, syscall.LOCK_EX) }

// Held tells whether somebody holds the lock of the file at path. A file that does not exist is not
// held. Held shares the lock for an instant, in which TryLock fails.
func Held(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	err = flock(f, syscall.LOCK_SH)
	if errors.Is(err, ErrHeld) {
		return true, nil
	}
	return false, err
}

// Lock is TryLock that waits until the lock is free or ctx ends. waiting, if not nil, is called
// once if somebody else holds the lock. release releases it, once. The error is ctx's, or the
// file's. Waiters get the lock in no order.
func Lock(ctx context.Context, path string, waiting func()) (release func() error, err error) {
	for {
		f, err := TryLock(path)
		if err == nil {
			return f.Close, nil
		}
		if !errors.Is(err, ErrHeld) {
			return nil, err
		}
		if waiting != nil {
			waiting()
			waiting = nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("another process holds %s: %w", path, ctx.Err())
		case <-time.After(lookEvery):
		}
	}
}

// flock takes a lock without waiting. It belongs to the open file (flock(2)), not to the process.
func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return fmt.Errorf("lock %s: %w", f.Name(), ErrHeld)
		case err != nil:
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		default:
			return nil
		}
	}
}
