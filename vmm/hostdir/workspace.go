// Package hostdir makes and copies workspaces that are directories of the host. It never follows a
// link that a box made, and knows no machine.
package hostdir

import (
	"context"
	"errors"
	"os"

	"agentbox/agentbox"
	"agentbox/vmm"
	"agentbox/vmm/statedir"
)

// Workspaces makes workspaces that are directories of the host. A driver embeds it: it implements a
// part of vmm.Driver, and vmm.DirectoryWorkspaces.
type Workspaces struct{}

var _ vmm.DirectoryWorkspaces = Workspaces{}

// ReserveWorkspace implements vmm.Driver. A workspace is a directory of the host without a limit of
// its own: the supervisor enforces the quota (agentbox/place/local/supervisor/diskquota.go).
func (w Workspaces) ReserveWorkspace(_ context.Context, path string, _ int64) error {
	return statedir.HostError(os.Mkdir(path, 0o755))
}

// NewWorkspace implements vmm.Driver. An existing directory keeps its inode, as a running sandbox
// may have it open; if it has files, the error has code Conflict. size bounds what is copied from
// tree.
func (w Workspaces) NewWorkspace(ctx context.Context, path, tree string, size int64) error {
	err := os.Mkdir(path, 0o755)
	existed := errors.Is(err, os.ErrExist)
	if existed {
		err = mustBeEmpty(path)
	}
	if err != nil || tree == "" {
		return statedir.HostError(err)
	}
	err = CopyTree(ctx, path, tree, size)
	if err == nil {
		err = w.FinishWorkspace(path)
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

// FinishWorkspace implements vmm.DirectoryWorkspaces, for a workspace that the caller has filled.
func (w Workspaces) FinishWorkspace(path string) error { return os.Chmod(path, workspaceMode) }

// workspaceMode lets every user of the box in, whatever the umask.
const workspaceMode = 0o755

// mustBeEmpty returns Conflict for a directory that has files.
func mustBeEmpty(path string) error {
	entries, err := os.ReadDir(path)
	if err == nil && len(entries) > 0 {
		err = agentbox.Errorf(agentbox.Conflict, "the workspace %s has files already", path)
	}
	return err
}

// CopyWorkspace implements vmm.Driver. dst must not exist (code Exists); on failure it does not
// either.
func (w Workspaces) CopyWorkspace(ctx context.Context, dst, src string) error {
	if _, err := os.Stat(src); err != nil {
		return err
	}
	if err := os.Mkdir(dst, 0o755); err != nil {
		if errors.Is(err, os.ErrExist) {
			return agentbox.Errorf(agentbox.Exists, "%s exists already", dst)
		}
		return statedir.HostError(err)
	}
	if err := CopyTree(ctx, dst, src, 0); err != nil {
		return statedir.HostError(errors.Join(err, os.RemoveAll(dst)))
	}
	return nil
}
