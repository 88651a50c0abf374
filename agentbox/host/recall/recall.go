// Package recall keeps what agents remember of their conversations, by project, and gives it back
// to later boxes, so that a reset or a new box does not make an agent forget. It wakes no box, and
// nothing fails by it: a box that cannot be asked in half a minute loses its latest conversations,
// and is told so.
//
// Kept is one archive for each project and agent (home.Sessions), which the package history merges:
// files are data from a box, bounded in number and size, and are judged there before anything is
// kept.
package recall

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/bounded"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/history"
	"agentbox/agentbox/home"
	"agentbox/agentbox/host/keyed"
)

// Bounds of one exchange with a box.
const (
	historyTime = 30 * time.Second // for getting what an agent remembers, or giving it back
	// Bytes that are taken of a box, most of which may not be kept.
	historyMost = 4 * history.MaxBytes
)

// Recall is that of a home. Keeping for the same project and agent is done by one caller at a time;
// others may be going on.
type Recall struct {
	Home home.Home
	Log  *slog.Logger
	keys keyed.Locks
}

// Box is a box that runs.
type Box struct {
	ID      agentbox.BoxID
	Name    string
	Project string // its id
	// Open connects to it.
	Open func(ctx context.Context) (Guest, error)
}

// Guest is a box as its user sees it (Connection).
type Guest interface {
	// Home is the user's home directory.
	Home(ctx context.Context) (string, error)
	// Take writes the files below some directories, as a tar archive with names relative to root. A
	// missing one is no error.
	Take(ctx context.Context, root string, dirs []string, w io.Writer) error
	// Give unpacks an archive.
	Give(ctx context.Context, root string, r io.Reader) error
	Close() error
}

// Keep keeps what is remembered in a box: dirs are, for each agent, the directories below the home
// of the box's user that have its conversations. Nothing waits for it for long: what cannot be kept
// is told.
func (r *Recall) Keep(ctx context.Context, b Box, dirs map[string][]string, progress agentbox.Progress) {
	ctx, cancel := context.WithTimeout(ctx, historyTime)
	defer cancel()
	for _, agent := range slices.Sorted(maps.Keys(dirs)) {
		if err := r.keep(ctx, b, agent, dirs[agent]); err != nil {
			r.Log.Warn("cannot keep an agent's history", "box", b.ID, "agent", agent, "error", err)
			progress.Say("what " + agent + " remembers of its latest conversations in box " + b.Name + " is not kept: " + err.Error())
		}
	}
}

// keep takes what one agent of a box remembers and merges it into what is kept. Both files are
// temporary until then, in the same directory, so that the last step is a rename.
func (r *Recall) keep(ctx context.Context, b Box, agent string, dirs []string) error {
	kept := r.file(b, agent)
	defer r.keys.Lock(kept)()
	if err := os.MkdirAll(filepath.Dir(kept), 0o700); err != nil {
		return agentbox.OrNoSpace(err)
	}
	fresh, err := os.CreateTemp(filepath.Dir(kept), ".tmp-box-")
	if err != nil {
		return agentbox.OrNoSpace(err)
	}
	defer os.Remove(fresh.Name())
	defer fresh.Close()
	guest, err := b.Open(ctx)
	if err != nil {
		return err
	}
	defer guest.Close()
	root, err := guest.Home(ctx)
	if err != nil {
		return err
	}
	if err := guest.Take(ctx, root, dirs, &bounded.AtMost{W: fresh, Left: historyMost, Err: tooMuch()}); err != nil {
		return agentbox.OrNoSpace(err)
	}
	return agentbox.OrNoSpace(merge(kept, fresh, dirs))
}

// merge puts what a box has into what is kept, which is replaced as a whole. Where both have a
// file, history decides.
func merge(kept string, fresh *os.File, dirs []string) error {
	var before io.ReadSeeker
	f, err := os.Open(kept)
	if err == nil {
		defer f.Close()
		before = f
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out, err := os.CreateTemp(filepath.Dir(kept), ".tmp-kept-")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name()) // there is none of that name after the rename
	err = history.Merge(out, fresh, before, dirs)
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return err
	}
	if err := os.Rename(out.Name(), kept); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(kept))
}

// tooMuch refuses what a box says beyond what is kept.
func tooMuch() error {
	return agentbox.Errorf(agentbox.Conflict, "the box says more than can be kept: delete old conversations in it")
}

// file is where an agent's conversations about a project are kept.
func (r *Recall) file(b Box, agent string) string {
	return filepath.Join(r.Home.Sessions(b.Project, agent), "kept.tar")
}

// Give unpacks what is kept for an agent into a box: in there, by its own user. Nothing is kept for
// an agent that was never run: then there is nothing to do.
func (r *Recall) Give(ctx context.Context, b Box, agent string) error {
	ctx, cancel := context.WithTimeout(ctx, historyTime)
	defer cancel()
	f, err := os.Open(r.file(b, agent))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	guest, err := b.Open(ctx)
	if err != nil {
		return err
	}
	defer guest.Close()
	root, err := guest.Home(ctx)
	if err != nil {
		return err
	}
	return guest.Give(ctx, root, f)
}
