package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"agentbox/agentbox"
	"agentbox/agentbox/place"
	"agentbox/agentbox/place/local/supervisors"
	"agentbox/agentbox/workspace"
	"agentbox/vmm"
)

// lifeDir is the directory of a life's machine. Numbers are not reused, so the files of a killed
// machine cannot be taken for those of the next.
func (k kind) lifeDir(spec place.Spec) string {
	return filepath.Join(k.Home.Box(spec.ID).Dir, spec.LifeName())
}

// workspacePath is a workspace, a disk image or a directory, depending on the driver.
func (k kind) workspacePath(spec place.Spec) string {
	return filepath.Join(k.Home.Box(spec.ID).Dir, spec.WorkspaceName())
}

// staging is where the files of a workspace are put for a driver that makes its own form of it.
func (k kind) staging(id agentbox.BoxID) string { return filepath.Join(k.Home.Box(id).Dir, "staging") }

func (k kind) checkpoint(id agentbox.BoxID, name string) string {
	return filepath.Join(k.Home.Box(id).Checkpoints(), name)
}

// Reclaim implements place.Keeper. Users of a gVisor guest have files on the host; a machine gives
// them back when it ends, and one that was killed could not (vmm.Reclaimer).
func (k kind) Reclaim(spec place.Spec) error {
	return reclaim(k.Context, k.driver, k.workspacePath(spec))
}

func reclaim(ctx context.Context, driver vmm.Driver, dir string) error {
	if r, ok := driver.(vmm.Reclaimer); ok {
		return r.Reclaim(ctx, dir)
	}
	return nil
}

// removeTree removes a directory of a box, even if machines left files of other users in it.
func removeTree(ctx context.Context, driver vmm.Driver, dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if err := reclaim(ctx, driver, dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// removedSuffix names the directory of a box that is gone for everybody else.
const removedSuffix = ".removed"

// Remove implements place.Kind. After the rename the box is gone, even if deleting takes long or is
// interrupted.
func (k kind) Remove(_ context.Context, spec place.Spec) error {
	names := k.Home.Box(spec.ID)
	if err := workspace.RemoveTemp(k.staging(spec.ID)); err != nil {
		return err
	}
	err := os.Rename(names.Dir, names.Dir+removedSuffix)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, removeTree(k.Context, k.driver, names.Dir+removedSuffix), os.RemoveAll(names.Run))
}

// Discard ends and removes what is left of a box that no record names: its kind is not known.
func (l *Local) Discard(id agentbox.BoxID) error {
	names := l.Home.Box(id)
	err := supervisors.KillHolder(names.Lock())
	// gVisor is the kind that leaves files of other users.
	driver, driverErr := l.Driver(agentbox.GVisor)
	err = errors.Join(err, driverErr)
	for _, dir := range []string{names.Dir, names.Dir + removedSuffix, names.Run} {
		err = errors.Join(err, removeTree(l.Context, driver, dir))
	}
	return err
}

// Tidy implements place.Keeper.
func (k kind) Tidy(spec place.Spec, saves bool, checkpoints []string) error {
	keep := []string{k.lifeDir(spec), k.workspacePath(spec)}
	for _, name := range checkpoints {
		keep = append(keep, k.checkpoint(spec.ID, name))
	}
	patterns := []string{"life-*", "workspace-*", "staging", ".tmp-*"}
	if saves {
		patterns = append(patterns, ".*.tmp-*", "checkpoints/*")
	}
	var errs []error
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(k.Home.Box(spec.ID).Dir, pattern))
		errs = append(errs, err)
		for _, path := range found {
			if !slices.Contains(keep, path) {
				errs = append(errs, removeTree(k.Context, k.driver, path))
			}
		}
	}
	return errors.Join(errs...)
}

// Kept implements place.Keeper. The supervisor renames what it restores before the guest runs, and
// back if it never ran.
func (k kind) Kept(id agentbox.BoxID) (place.Kept, error) {
	names := k.Home.Box(id)
	for _, dir := range []string{names.Saved(), names.Resuming()} {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return place.Nothing, err
		}
		if dir == names.Saved() {
			return place.Whole, nil
		}
		return place.Spent, nil
	}
	return place.Nothing, nil
}

// DropKept implements place.Keeper.
func (k kind) DropKept(id agentbox.BoxID, whole bool) error {
	names := k.Home.Box(id)
	err := os.RemoveAll(names.Resuming())
	if whole {
		err = errors.Join(os.RemoveAll(names.Saved()), err)
	}
	return err
}
