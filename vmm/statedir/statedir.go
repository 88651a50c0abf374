// Package statedir makes the directories in which drivers keep templates and saved machines: whole
// or not at all, with errors that say what a caller can do.
package statedir

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
)

// HostError gives errors of this host's file system the code that a caller acts on.
func HostError(err error) error {
	var coded *agentbox.Error
	switch {
	case err == nil, errors.As(err, &coded):
		return err
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return agentbox.Errorf(agentbox.NoSpace, "%w", err).WithHint("free some disk space (agentbox prune shows what can go), then try again")
	}
	return err
}

// Corrupt says that a template or saved state is not what was written.
func Corrupt(dir, format string, args ...any) error {
	e := agentbox.Errorf(agentbox.Corrupt, format, args...)
	e.Message = dir + ": " + e.Message
	return e.WithHint("it cannot be used any more; remove %s", dir)
}

// New fills a directory under a temporary name and renames it when it is complete: dir appears
// whole or not at all. fill syncs the files it makes.
func New(dir string, fill func(tmp string) error) error { return create(dir, fill, durable.SyncDir) }

// NewPassing is New without waiting for the disk: for what is made anew after a power loss. fill
// syncs nothing either.
func NewPassing(dir string, fill func(tmp string) error) error {
	return create(dir, fill, func(string) error { return nil })
}

func create(dir string, fill func(tmp string) error, sync func(dir string) error) (err error) {
	if _, err := os.Lstat(dir); err == nil {
		return agentbox.Errorf(agentbox.Exists, "%s exists already", dir)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".tmp-")
	if err != nil {
		return HostError(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(tmp))
		}
	}()
	if err := fill(tmp); err != nil {
		return HostError(err)
	}
	if err := sync(tmp); err != nil {
		return HostError(err)
	}
	if err := os.Rename(tmp, dir); err != nil {
		return HostError(err)
	}
	return HostError(sync(filepath.Dir(dir)))
}
