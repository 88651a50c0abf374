package cachestore

import (
	"errors"
	"os"
	"syscall"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
)

// isFull, isReadOnly and isIO recognize errors of the host's disk that say nothing about the stored
// bytes. An exceeded disk quota counts as a full disk, because the remedy is the same.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
func isReadOnly(err error) bool { return errors.Is(err, syscall.EROFS) }
func isIO(err error) bool       { return errors.Is(err, syscall.EIO) }

// lockFile takes the lock of the process that has the store open: a flock, which the kernel
// releases when the process ends. Conflict if another process has it.
func lockFile(path string) (*os.File, error) {
	f, err := durable.TryLock(path)
	if errors.Is(err, durable.ErrHeld) {
		return nil, agentbox.Errorf(agentbox.Conflict, "another process has the store open: %s is held", path).
			WithHint("agentbox daemon stop")
	}
	return f, err
}

// hostError gives an error of the operating system a code: NoSpace for a full disk, Unavailable for
// one that fails or is read-only. All other errors, and nil, pass unchanged, so every return may go
// through it.
func (d dir) hostError(err error) error {
	switch {
	case err == nil, errors.As(err, new(*agentbox.Error)):
		return err
	case isFull(err):
		return agentbox.Classify(agentbox.NoSpace, "the disk of the store at %s is full: %w", d.root, err).WithHint(freeHint)
	case isReadOnly(err):
		return agentbox.Classify(agentbox.Unavailable, "the store at %s cannot be written: %w", d.root, err).
			WithHint("the file system is read-only: see dmesg, or move the home to another disk")
	case isIO(err):
		return agentbox.Classify(agentbox.Unavailable, "the disk of the store at %s fails: %w", d.root, err).
			WithHint("see dmesg; agentbox cache verify tells what is damaged")
	}
	return err
}

// freeHint is the hint of every error of code NoSpace.
const freeHint = "agentbox cache gc --all and agentbox prune free what nothing needs; agentbox image rm and agentbox rm the rest"
