package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/vmm"
)

// disk keeps the files of boxes. It knows which files belong to which life and workspace. Of
// machines it knows only that some kinds leave files that only their driver can take back.
type disk struct {
	home   home.Home
	driver func(agentbox.Isolation) (vmm.Driver, error)
	ctx    context.Context // of the daemon, so that a caller who goes away does not stop it
}

// reclaim makes this user the owner of everything below dir. Users of a gVisor guest have files on
// the host; a machine gives them back when it ends, and one that was killed could not
// (vmm.Reclaimer).
func (d disk) reclaim(kind agentbox.Isolation, dir string) error {
	driver, err := d.driver(kind)
	if err != nil {
		return err
	}
	if r, ok := driver.(vmm.Reclaimer); ok {
		return r.Reclaim(d.ctx, dir)
	}
	return nil
}

// removeTree removes a directory of a box, even if machines left files of other users in it.
func (d disk) removeTree(kind agentbox.Isolation, dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if err := d.reclaim(kind, dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// makeDirs makes the directories of a box and of its present life.
func (d disk) makeDirs(rec record) error {
	names := rec.names(d.home)
	return errors.Join(os.MkdirAll(names.Dir, 0o700), os.MkdirAll(rec.lifeDir(d.home), 0o700), os.MkdirAll(names.Run, 0o700))
}

// prepare makes the directories of a new life, then writes the record that names it, so that a
// record never names a directory that does not exist. The caller holds the box's op.
func (d disk) prepare(b *box, rec record) error {
	if err := d.makeDirs(rec); err != nil {
		return agentbox.MarkNoSpace(err)
	}
	return b.commit(d.home, rec)
}

// sweep removes the files of earlier lives and workspaces, and temporary files of interrupted
// operations. No operation on the box may be under way.
func (d disk) sweep(rec record) error {
	return d.removeMatches(rec, "life-*", "workspace-*", "staging", ".tmp-*")
}

// sweepSaves removes saved states that were never completed, and checkpoints that the record does
// not name because the daemon died before it did. The machine must have ended: while it runs, one of
// them may be under way.
func (d disk) sweepSaves(rec record) error {
	return d.removeMatches(rec, ".*.tmp-*", "checkpoints/*")
}

// removeMatches removes what matches the patterns below the box's directory, except its present
// life, its workspace and its checkpoints.
func (d disk) removeMatches(rec record, patterns ...string) error {
	keep := []string{rec.lifeDir(d.home), rec.workspacePath(d.home)}
	for _, c := range rec.Box.Checkpoint {
		keep = append(keep, filepath.Join(rec.names(d.home).Checkpoints(), c.ID))
	}
	var errs []error
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(rec.names(d.home).Dir, pattern))
		errs = append(errs, err)
		for _, path := range found {
			if !slices.Contains(keep, path) {
				errs = append(errs, d.removeTree(rec.Box.Isolation, path))
			}
		}
	}
	return errors.Join(errs...)
}

// dropSaved removes the saved machine of a paused box, if there is one.
func (d disk) dropSaved(rec record) error {
	names := rec.names(d.home)
	return errors.Join(os.RemoveAll(names.Saved()), os.RemoveAll(names.Resuming()))
}
