package host

import (
	"context"
	"strings"
	"sync"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/agentbox/host/images"
	"agentbox/agentbox/host/prune"
	"agentbox/agentbox/resources"
)

// table has the boxes in memory, by id. mu guards the map only, so the boxes that a method reads
// may change meanwhile; callers that need more hold the box's op.
type table struct {
	home   home.Home
	unread []string // why boxes were not taken over; set before anyone asks

	mu    sync.Mutex
	boxes map[agentbox.BoxID]*box
}

// newTable makes an empty table; adoption fills it.
func newTable(h home.Home) *table { return &table{home: h, boxes: map[agentbox.BoxID]*box{}} }

// drop forgets a box when nothing of it is on disk any more.
func (t *table) drop(id agentbox.BoxID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.boxes, id)
}

func (t *table) known(id agentbox.BoxID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.boxes[id] != nil
}

func (t *table) count() (n int) {
	for _, b := range t.all() {
		if b.record().Phase == phaseReady {
			n++
		}
	}
	return n
}

func (t *table) boxesUsing(d agentbox.Digest) (names []string) {
	for _, b := range t.all() {
		if rec := b.record(); rec.Box.Image == d && (rec.Phase == phaseReady || rec.Phase == phaseMoving) {
			names = append(names, rec.Box.Name)
		}
	}
	return names
}

// imagesInUse lists the images that machines run from. A new daemon goes on to complete those of
// which only a part is here.
func (t *table) imagesInUse() (using []images.Using) {
	for _, b := range t.all() {
		if rec := b.record(); b.place() != nil {
			using = append(using, images.Using{Isolation: rec.Box.Isolation, File: rec.ImageFile})
		}
	}
	return using
}

// all returns the boxes of every phase, in no order.
func (t *table) all() []*box {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]*box, 0, len(t.boxes))
	for _, b := range t.boxes {
		out = append(out, b)
	}
	return out
}

func (t *table) put(b *box) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.boxes[b.record().Box.ID] = b
}

// allocated is what the running boxes, except one, may grow to. Machines of the pool do not count,
// because they make room for boxes.
func (t *table) allocated(except agentbox.BoxID) resources.Allocated {
	var p resources.Allocated
	for _, b := range t.all() {
		rec := b.record()
		if b.place() == nil || rec.Phase == phasePool || rec.Box.ID == except {
			continue
		}
		p = resources.Allocated{Boxes: p.Boxes + 1, CPUs: p.CPUs + rec.Box.CPUs, Memory: p.Memory + rec.Box.Memory}
	}
	return p
}

// reportUnread reports the boxes that are here and cannot be shown.
func (t *table) reportUnread(progress agentbox.Progress) {
	for _, line := range t.unread {
		progress.Note(line)
	}
}

// unreadable is the error of operations that must know what every box needs. Prune, for example,
// would remove a template that such a box needs.
func (t *table) unreadable() error {
	if len(t.unread) == 0 {
		return nil
	}
	return agentbox.Errorf(agentbox.Corrupt, "%s", strings.Join(t.unread, "; ")).
		WithHint("its workspace is in %s: use the agentbox that wrote it, or move its directory away to give it up, and then agentbox daemon stop", t.home.Boxes())
}

// templates are the keys of the machines of boxes and of the pool.
func (t *table) templates() map[string]bool {
	used := map[string]bool{}
	for _, b := range t.all() {
		used[b.record().Box.Template] = true
	}
	return used
}

// prunableBoxes implements prune.Boxes.
type prunableBoxes struct {
	*table
	remove func(ctx context.Context, b *box, progress agentbox.Progress) error // removeIdle
}

// Unreadable implements prune.Boxes.
func (p prunableBoxes) Unreadable() error { return p.unreadable() }

// Known implements prune.Boxes.
func (p prunableBoxes) Known(id agentbox.BoxID) bool { return p.known(id) }

// Templates implements prune.Boxes.
func (p prunableBoxes) Templates() map[string]bool { return p.templates() }

// Idle implements prune.Boxes.
func (p prunableBoxes) Idle() (idle []prune.Box) {
	for _, b := range p.all() {
		if rec := b.record(); rec.Phase == phaseReady && b.place() == nil {
			idle = append(idle, prune.Box{Box: rec.Box, Detached: rec.Detached, Dir: rec.names(p.home).Dir, Remove: func(ctx context.Context, progress agentbox.Progress) error {
				return p.remove(ctx, b, progress)
			}})
		}
	}
	return idle
}
