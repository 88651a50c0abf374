package cachestore

import (
	"errors"
	"os"
	"syscall"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
)

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
func isReadOnly(err error) bool { return errors.Is(err, syscall.EROFS) }
func isIO(err error) bool       { return errors.Is(err, syscall.EIO) }

// lockFile takes a lock that goes with this process.
func lockFile(path string) (*os.File, error) {
	f, err := durable.TryLock(path)
	if errors.Is(err, durable.ErrHeld) {
		return nil, agentbox.Errorf(agentbox.Conflict, "another process has the store open: %s is held", path).
			WithHint("agentbox daemon stop")
	}
	return f, err
}
