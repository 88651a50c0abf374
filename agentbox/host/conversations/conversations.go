// Package conversations keeps agents' conversations by project and gives them to later boxes, so that an
// agent does not forget them with a reset or a new box. It wakes no box; its caller does. Nothing
// fails because of it: a box that does not answer within half a minute loses its latest
// conversations, and the user is told.
//
// There is one archive for each project and agent (home.Sessions), which package conversation merges.
// Its files are data from boxes; conversation bounds their number and size and decides what is kept.
package conversations

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
	"agentbox/agentbox/conversation"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/home"
	"agentbox/agentbox/host/keyed"
)

// Bounds of one exchange with a box.
const (
	historyTimeout = 30 * time.Second // for getting or restoring conversations
	scriptTimeout  = 2 * time.Minute  // for an agent's own program that exports or imports them, besides
	// Bytes that are read from a box; conversation keeps less.
	maxHistory = 4 * conversation.MaxBytes
)

// Store has the conversations of a home. One caller at a time merges those of a project and agent.
type Store struct {
	Home home.Home
	Log  *slog.Logger
	keys keyed.Locks
}

// Box is a running box.
type Box struct {
	ID      agentbox.BoxID
	Name    string
	Project string // its id
	// Open connects to the box.
	Open func(ctx context.Context) (Guest, error)
}

// Guest is a box as its user sees it (Connection).
type Guest interface {
	// Home is the user's home directory.
	Home(ctx context.Context) (string, error)
	// Run runs commands of a shell, in the workspace.
	Run(ctx context.Context, script string) error
	// Export writes the files below some directories as a tar archive, with names relative to root.
	// Missing directories are no error.
	Export(ctx context.Context, root string, dirs []string, w io.Writer) error
	// Import unpacks an archive below root.
	Import(ctx context.Context, root string, r io.Reader) error
	Close() error
}

// Place is where an agent has its conversations.
type Place struct {
	Dirs []string // below the user's home
	Save string   // commands that write the conversations there first; "" for none
}

// timeout bounds an exchange with a box that also runs a script, if that is not "".
func timeout(script string) time.Duration {
	if script != "" {
		return historyTimeout + scriptTimeout
	}
	return historyTimeout
}

// Save saves the conversations in a box, by agent, and returns the agents that have none there. It
// takes half a minute for each at most, and longer only with a script; what cannot be kept is
// reported.
func (s *Store) Save(ctx context.Context, b Box, places map[string]Place, progress agentbox.Progress) (without []string) {
	for _, agent := range slices.Sorted(maps.Keys(places)) {
		limited, cancel := context.WithTimeout(ctx, timeout(places[agent].Save))
		files, err := s.saveAgent(limited, b, agent, places[agent])
		cancel()
		if err == nil && files == 0 {
			without = append(without, agent)
		}
		if err != nil {
			s.Log.Warn("cannot keep the conversations of an agent", "box", b.ID, "agent", agent, "error", err)
			progress.Note("what " + agent + " remembers of its latest conversations in box " + b.Name + " is not kept: " + err.Error())
		}
	}
	return without
}

// saveAgent merges the conversations of one agent into its archive. The temporary files are in the
// archive's directory, so that the last step is a rename. It returns how many files the box has. A
// script that fails is an error once what it has written is kept.
func (s *Store) saveAgent(ctx context.Context, b Box, agent string, p Place) (files int, err error) {
	kept := s.archivePath(b, agent)
	defer s.keys.Lock(kept)()
	if err := os.MkdirAll(filepath.Dir(kept), 0o700); err != nil {
		return 0, agentbox.MarkNoSpace(err)
	}
	fresh, err := os.CreateTemp(filepath.Dir(kept), ".tmp-box-")
	if err != nil {
		return 0, agentbox.MarkNoSpace(err)
	}
	defer os.Remove(fresh.Name())
	defer fresh.Close()
	guest, err := b.Open(ctx)
	if err != nil {
		return 0, err
	}
	defer guest.Close()
	root, err := guest.Home(ctx)
	if err != nil {
		return 0, err
	}
	var failed error
	if p.Save != "" {
		failed = guest.Run(ctx, p.Save)
	}
	if err := guest.Export(ctx, root, p.Dirs, &bounded.LimitedWriter{W: fresh, Remaining: maxHistory, Err: errTooLarge()}); err != nil {
		return 0, agentbox.MarkNoSpace(err)
	}
	if err := merge(kept, fresh, p.Dirs); err != nil {
		return 0, agentbox.MarkNoSpace(err)
	}
	if failed != nil {
		return 0, failed
	}
	return conversation.Count(fresh, p.Dirs)
}

// merge merges fresh into the archive kept, which is replaced as a whole. conversation decides where
// both have a file.
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
	defer os.Remove(out.Name()) // after the rename there is no such file
	err = conversation.Merge(out, fresh, before, dirs)
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return err
	}
	if err := os.Rename(out.Name(), kept); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(kept))
}

// errTooLarge is the error of a box that sends more than is kept.
func errTooLarge() error {
	return agentbox.Errorf(agentbox.Conflict, "the box sends more than can be kept: delete old conversations in it")
}

func (s *Store) archivePath(b Box, agent string) string {
	return filepath.Join(s.Home.Sessions(b.Project, agent), "kept.tar")
}

// Sweep removes what a killed daemon was writing. The caller is the next one, before it uses r.
func (s *Store) Sweep() error {
	return durable.Sweep(s.Home.Sessions("", ""), "*/*/.tmp-*")
}

// Restore unpacks the archive of an agent in a box, as the box's user, and then runs script there,
// unless it is "". Without an archive it does nothing.
func (s *Store) Restore(ctx context.Context, b Box, agent, script string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout(script))
	defer cancel()
	f, err := os.Open(s.archivePath(b, agent))
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
	if err := guest.Import(ctx, root, f); err != nil || script == "" {
		return err
	}
	return guest.Run(ctx, script)
}
