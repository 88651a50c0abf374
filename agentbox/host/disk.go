package host

import (
	"context"
	"os"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/agentbox/place"
)

// disk keeps what boxes have beside their lives: the record here, the rest by asking their kind.
type disk struct {
	home home.Home
	open func(agentbox.Isolation) (place.Kind, error)
}

func (d disk) kind(rec record) (place.Kind, error) { return d.open(rec.Box.Isolation) }

// keeper is the kind of a box if it keeps files of ended lives, else nil.
func (d disk) keeper(rec record) (place.Keeper, error) {
	kind, err := d.kind(rec)
	keeper, _ := kind.(place.Keeper)
	return keeper, err
}

// prepare makes the directory of a box, then writes the record, which names a new life. The caller
// holds the box's op.
func (d disk) prepare(b *box, rec record) error {
	if err := os.MkdirAll(rec.names(d.home).Dir, 0o700); err != nil {
		return agentbox.MarkNoSpace(err)
	}
	return b.commit(d.home, rec)
}

// key gets ready what lives like the record's begin with, and returns its key.
func (d disk) key(ctx context.Context, rec record, progress agentbox.Progress) (string, error) {
	kind, err := d.kind(rec)
	if p, ok := kind.(place.Preparer); ok {
		return p.Prepare(ctx, rec.spec(), progress)
	}
	return "", err
}

// prepares tells whether key takes long for a kind.
func (d disk) prepares(kind agentbox.Isolation) bool {
	k, _ := d.open(kind)
	p, ok := k.(place.Preparer)
	return ok && p.Prepares()
}

// checkRestorable fails if what was saved of the box cannot be restored.
func (d disk) checkRestorable(ctx context.Context, rec record) error {
	kind, err := d.kind(rec)
	if p, ok := kind.(place.Preparer); ok {
		return p.CheckRestorable(ctx, rec.spec())
	}
	return err
}

// saver returns the ability to save the box's place, if what is saved could be restored. what says
// what was to be done to the box.
func (d disk) saver(ctx context.Context, b *box, what string) (place.Saver, error) {
	rec, p := b.record(), b.place()
	if p == nil {
		return nil, notRunning(rec)
	}
	kind, err := d.kind(rec)
	if err != nil {
		return nil, err
	}
	preparer, ok := kind.(place.Preparer)
	saver, can := p.(place.Saver)
	if !ok || !can {
		return nil, agentbox.Errorf(agentbox.Conflict, "box %s cannot be %s: %s isolation does not save what runs", rec.Box.Name, what, rec.Box.Isolation).
			WithHint("agentbox snapshot create %s keeps its work", rec.Box.Name)
	}
	return saver, preparer.CheckSavable(ctx, rec.spec(), what)
}

func (d disk) kept(rec record) (place.Kept, error) {
	keeper, err := d.keeper(rec)
	if keeper == nil {
		return place.Nothing, err
	}
	return keeper.Kept(rec.Box.ID)
}

// dropKept drops what is kept of a paused box if nothing fits it any more, or in any case.
func (d disk) dropKept(rec record, whole bool) error {
	keeper, err := d.keeper(rec)
	if keeper == nil {
		return err
	}
	return keeper.DropKept(rec.Box.ID, whole)
}

// reclaim takes back the files of a life that was killed.
func (d disk) reclaim(rec record) error {
	keeper, err := d.keeper(rec)
	if keeper == nil {
		return err
	}
	return keeper.Reclaim(rec.spec())
}

// sweep removes the files of earlier lives and workspaces, and temporary files of interrupted
// operations; with saves also saves that were never completed, and checkpoints that the record does
// not name because the daemon died before it did. No operation on the box may be under way, and with
// saves it has no live place: one of them may be under way there.
func (d disk) sweep(rec record, saves bool) error {
	keeper, err := d.keeper(rec)
	if keeper == nil {
		return err
	}
	var names []string
	for _, c := range rec.Box.Checkpoint {
		names = append(names, c.ID)
	}
	return keeper.Tidy(rec.spec(), saves, names)
}
