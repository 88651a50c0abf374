package cachestore

import (
	"errors"
	"os"
	"syscall"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
)

// isFull, isReadOnly and isIO know the errors of a host's disk by which something other than the
// bytes is to blame. A user's quota counts as a full disk: it is remedied in the same way.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
func isReadOnly(err error) bool { return errors.Is(err, syscall.EROFS) }
func isIO(err error) bool       { return errors.Is(err, syscall.EIO) }

// lockFile takes the lock that says that a process has the store open. It is a flock: the kernel
// gives it back when the process ends, however that happens. Conflict when another has it.
func lockFile(path string) (*os.File, error) {
	f, err := durable.TryLock(path)
	if errors.Is(err, durable.ErrHeld) {
		return nil, agentbox.Errorf(agentbox.Conflict, "another process has the store open: %s is held", path).
			WithHint("agentbox daemon stop")
	}
	return f, err
}
