// Package statedir makes and checks the directories in which drivers keep templates and saved
// machines: whole or not at all, with errors that say what a caller can do. It knows no box, no
// template key and no driver. The two drivers, vmm/qemu and vmm/gvisor, share how a directory
// appears (New), the sealed manifest of its files (Seal, ReadManifest), and what a manifest says of
// every machine (Basis).
//
// A directory never changes after New has returned, but it may be removed. Its manifest's digest is
// its identity. Anything in it that is not as it was written is an error of code Corrupt: callers
// make a template again, and tell the user about a saved machine.
package statedir

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
)

// HostError gives a full disk and an exceeded quota the code NoSpace and a hint. Errors with a
// code, and all others, are returned as they are; nil is nil.
func HostError(err error) error {
	var coded *agentbox.Error
	switch {
	case err == nil, errors.As(err, &coded):
		return err
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return agentbox.Classify(agentbox.NoSpace, "%w", err).WithHint("free some disk space (agentbox prune shows what can go), then try again")
	}
	return err
}

// Corrupt means that a template or saved state is not what was written. The message begins with its
// directory, dir, and the hint says to remove it; format and args may wrap an error with %w.
func Corrupt(dir, format string, args ...any) error {
	e := agentbox.Errorf(agentbox.Corrupt, format, args...)
	e.Message = dir + ": " + e.Message
	return e.WithHint("it cannot be used any more; remove %s", dir)
}

// New fills a directory under a temporary name beside it and renames it when it is complete: dir
// appears whole or not at all, also across a power loss. fill gets the temporary directory and
// syncs the files it makes. dir must not exist (code Exists); its parent must. On failure nothing
// is left, but after a crash a directory with a leading dot may be.
func New(dir string, fill func(tmp string) error) error { return create(dir, fill, durable.SyncDir) }

// NewTransient is New without any sync, for states that a power loss makes worthless anyway, such
// as that of a fork. fill need not sync either.
func NewTransient(dir string, fill func(tmp string) error) error {
	return create(dir, fill, func(string) error { return nil })
}

// create does what New says; sync makes the names in a directory durable. The parent is synced
// after the rename, since a name is durable only when its directory is.
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
	if err := sync(filepath.Dir(dir)); err != nil {
		return errors.Join(HostError(err), os.RemoveAll(dir)) // a save that failed must not be found
	}
	return nil
}
