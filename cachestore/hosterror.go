package cachestore

import (
	"errors"
	"os"
	"syscall"

	"agentbox/agentbox"
)

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
func isReadOnly(err error) bool { return errors.Is(err, syscall.EROFS) }
func isIO(err error) bool       { return errors.Is(err, syscall.EIO) }

// lockFile takes a lock that goes with this process.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, agentbox.Errorf(agentbox.Conflict, "another process has the store open: %s is held", path).
			WithHint("agentbox daemon stop")
	}
	return f, nil
}
