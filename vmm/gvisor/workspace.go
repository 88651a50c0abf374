package gvisor

import (
	"context"
	"errors"
	"os"

	"agentbox/agentbox"
	"agentbox/vmm/statedir"
)

// ReserveWorkspace implements vmm.Driver: a workspace is a directory of the host. Its size is not
// bound to anything here: the supervisor keeps to the quota while the machine runs
// (agentbox/supervisor/diskquota.go).
func (d *Driver) ReserveWorkspace(_ context.Context, path string, _ int64) error {
	return statedir.HostError(os.Mkdir(path, 0o755))
}

// NewWorkspace implements vmm.Driver. A directory that exists keeps its inode, since a running
// sandbox may have it. size bounds what is copied from tree. A directory that has files already is
// code Conflict.
func (d *Driver) NewWorkspace(ctx context.Context, path, tree string, size int64) error {
	err := os.Mkdir(path, 0o755)
	existed := errors.Is(err, os.ErrExist)
	if existed {
		err = mustBeEmpty(path)
	}
	if err != nil || tree == "" {
		return statedir.HostError(err)
	}
	err = copyTree(ctx, path, tree, size)
	if err == nil {
		err = d.FinishWorkspace(path)
	}
	if err == nil {
		return nil
	}
	undo := os.RemoveAll
	if existed {
		undo = removeContent
	}
	return statedir.HostError(errors.Join(err, undo(path)))
}

// FinishWorkspace implements vmm.DirectoryWorkspaces. The caller filled it with files of its own,
// which is all that NewWorkspace would have done.
func (d *Driver) FinishWorkspace(path string) error { return os.Chmod(path, workspaceMode) }

// workspaceMode lets every user of the box in, whatever a tree's own top and this process's umask
// say.
const workspaceMode = 0o755

func mustBeEmpty(path string) error {
	entries, err := os.ReadDir(path)
	if err == nil && len(entries) > 0 {
		err = agentbox.Errorf(agentbox.Conflict, "the workspace %s has files already", path)
	}
	return err
}

// CopyWorkspace implements vmm.Driver. dst must not exist (code Exists); on failure it does not
// either.
func (d *Driver) CopyWorkspace(ctx context.Context, dst, src string) error {
	if _, err := os.Stat(src); err != nil {
		return err
	}
	if err := os.Mkdir(dst, 0o755); err != nil {
		if errors.Is(err, os.ErrExist) {
			return agentbox.Errorf(agentbox.Exists, "%s exists already", dst)
		}
		return statedir.HostError(err)
	}
	if err := copyTree(ctx, dst, src, 0); err != nil {
		return statedir.HostError(errors.Join(err, os.RemoveAll(dst)))
	}
	return nil
}
