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

// disk keeps the files of boxes. It knows which files belong to which life and workspace of a box
// and nothing of machines, except that those of some kinds leave files that only they can take
// back.
type disk struct {
	home   home.Home
	driver func(agentbox.Isolation) (vmm.Driver, error)
	ctx    context.Context // of the daemon: a caller that goes away does not stop it
}

// reclaim gives everything below a directory back to us, where machines of a kind may leave files
// of others when they are killed. A guest of gVisor makes files of its users on this host; machines
// give them back when they end, and one that was killed could not (vmm.Reclaimer).
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

// removeTree removes a directory of a box, also where machines have left files of other users in
// it.
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

// begin makes the directories of a new life and then writes the record that names it, in this
// order: a record never names what is not there. The caller holds the box's op.
func (d disk) begin(b *box, rec record) error {
	if err := d.makeDirs(rec); err != nil {
		return agentbox.OrNoSpace(err)
	}
	return b.commit(d.home, rec)
}

// sweep removes what belongs to earlier lives and workspaces of a box, and temporary files of
// operations that were cut short. The box must not be in the middle of one.
func (d disk) sweep(rec record) error {
	return d.removeMatches(rec, "life-*", "workspace-*", "staging", ".tmp-*")
}

// sweepSaves removes saved states that were never completed. The machine must have ended: while it
// runs, one of them may be under way.
func (d disk) sweepSaves(rec record) error {
	return d.removeMatches(rec, ".*.tmp-*", "checkpoints/.*.tmp-*")
}

// removeMatches removes what matches patterns below the box's directory, but for its present life
// and workspace.
func (d disk) removeMatches(rec record, patterns ...string) error {
	keep := []string{rec.lifeDir(d.home), rec.workspacePath(d.home)}
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

// dropSaved removes the saved machine of a paused box. It is not an error where there is none.
func (d disk) dropSaved(rec record) error {
	names := rec.names(d.home)
	return errors.Join(os.RemoveAll(names.Saved()), os.RemoveAll(names.Resuming()))
}
