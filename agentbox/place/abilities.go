package place

import (
	"context"
	"errors"
	"io"
	"time"

	"agentbox/agentbox"
)

// Enforcer is the ability of a Place whose network is held by this machine: nothing leaves it but
// what a policy allows, and before the first policy nothing does.
type Enforcer interface {
	// ApplyPolicy puts in force what compose returns. Of two calls, the later one is in force in the
	// end. After an error the earlier policy may be in force.
	ApplyPolicy(ctx context.Context, compose func() (Policy, error)) error
}

// Limiter is the ability of a Place that is measured from outside, and paused or ended at a limit.
type Limiter interface {
	// Limit replaces the limits. What was used before counts.
	Limit(ctx context.Context, l Limits) error
}

// Dialer is the ability of a Place to make its TCP ports reachable on this machine's loopback.
type Dialer interface {
	// Forward opens configured ports; where a port of this machine is taken, another one is used.
	Forward(ctx context.Context, ports []agentbox.ConfiguredPort) error
	// OpenPort forwards a port. local is the port of this machine, 0 for any. Conflict if it is taken.
	OpenPort(ctx context.Context, port, local int) (agentbox.Port, error)
	// ClosePort ends a forwarding. NotFound if there is none.
	ClosePort(ctx context.Context, port int) error
}

// Rooted is the ability of a Place whose workspace is elsewhere than boxes of this host have it.
type Rooted interface {
	// Workspace is its path in the place.
	Workspace() string
}

// Leaver is the ability of a Place on another machine to end here without asking that machine, on
// which everything goes on.
type Leaver interface {
	Leave() error
}

// BoxVariable is in the environment of what runs in a Rooted place, with the box's ID, so that it can
// be ended with the place.
const BoxVariable = "AGENTBOX_BOX"

// Leaser is the ability of a Place to end by itself when nobody has worked in it for a term, also
// without this process.
type Leaser interface {
	// Renew begins the term anew.
	Renew(ctx context.Context, term time.Duration) error
}

// Parker is the ability of a Place to wait at next to no cost before it becomes a box.
type Parker interface {
	// Park prepares the place and stops its processors until Start.
	Park(ctx context.Context) error
}

// Halter is the ability of a Place to stand still at once, for seconds, and to go on. The box counts as
// running.
type Halter interface {
	Halt(ctx context.Context, halted bool) error
}

// Saver is the ability of a Place to be saved with its memory, processes and disks. Each save is
// complete or not there at all.
type Saver interface {
	// Pause saves the place and ends it. Kept is then Whole, until a Create with From Paused. The
	// place runs on after an error.
	Pause(ctx context.Context) error
	// Checkpoint saves the place under a name of the caller's, for a Create with that name as often
	// as wanted, and returns its size. The place stands still meanwhile and goes on.
	Checkpoint(ctx context.Context, name string) (bytes int64, err error)
	// Fork saves the place as the beginning of another box, for one Create with From Forked. The
	// place stands still meanwhile and goes on.
	Fork(ctx context.Context, child agentbox.BoxID) error
}

// Freezer is the ability of a Place to stand still in memory, for kinds that do not save what runs.
type Freezer interface {
	// Freeze stops everything that runs, and the clocks of lease and limits. Only the end of the place,
	// and Thaw, end that. Status tells it. It may be repeated.
	Freeze(ctx context.Context) error
	// Thaw lets everything go on. It may be repeated.
	Thaw(ctx context.Context) error
}

// Keeper is the ability of a Kind that keeps files of ended lives. No operation on the box may be
// under way.
type Keeper interface {
	// Kept says what is kept of a paused box. An error is no answer: there may be something.
	Kept(id agentbox.BoxID) (Kept, error)
	// DropKept drops what is kept of a paused box if it is Spent, with whole also if it is Whole.
	DropKept(id agentbox.BoxID, whole bool) error
	// Tidy drops what earlier lives and interrupted operations left, but for what spec names. With
	// saves it also drops saves that were never completed and checkpoints that are not named; the
	// box then has no live place.
	Tidy(spec Spec, saves bool, checkpoints []string) error
	// Reclaim takes back the files of a life that was killed. The box has no live place.
	Reclaim(spec Spec) error
}

// Kept is what is kept of a paused box.
type Kept int

const (
	Nothing Kept = iota
	// Whole: the box can be restored as it was.
	Whole
	// Spent: a restore was cut short after processes may have run, so nothing fits any more.
	Spent
)

// Preparer is the ability of a Kind whose places can be saved, or begin with what is made once for
// many. A key stands for everything that such a state depends on; it fits lives of the same key and
// no others.
type Preparer interface {
	// Prepare returns the key of lives like spec, "" if they cannot be saved, and makes what they
	// begin with.
	Prepare(ctx context.Context, spec Spec, progress agentbox.Progress) (key string, err error)
	// Prepares tells whether Prepare makes anything, which takes seconds.
	Prepares() bool
	// CheckRestorable fails if what was saved of a life of spec.Key cannot be restored: Conflict, or
	// Corrupt if what it began with is gone.
	CheckRestorable(ctx context.Context, spec Spec) error
	// CheckSavable is CheckRestorable before a save, with an error for a user who asked for the box
	// to be what, say "paused".
	CheckSavable(ctx context.Context, spec Spec, what string) error
}

// Mover is the ability of a Kind whose paused boxes can go on on another machine. No operation on the
// box may be under way.
type Mover interface {
	// Basis has a digest of each thing of this machine that a saved life of spec depends on, beside its
	// image, by what people call it: what it is has to be the same on both machines. Conflict if lives
	// of the kind cannot move.
	Basis(ctx context.Context, spec Spec) (map[string]agentbox.Digest, error)
	// Send writes all that is kept of a paused box (Whole), and its workspace, but what Receive says there
	// that it has.
	Send(ctx context.Context, spec Spec, to io.ReadWriter) error
	// Receive makes a paused box, of which nothing is there yet, of what Send of a machine that may want
	// harm wrote. All of it is on disk when it returns. Corrupt if it is not what its digests say,
	// Conflict if it does not fit this machine; the box is removed then. like is a directory in which much
	// of the workspace may be, "" for none. After an error from may be closed.
	Receive(ctx context.Context, spec Spec, like string, from io.ReadWriteCloser) error
}

// BlockReader is the ability of a Kind to begin a life while a part of its image is still missing.
type BlockReader interface {
	// ReadsBlocks tells why that does not work here, nil if it does.
	ReadsBlocks() error
}

// ReadsBlocks tells why lives of a kind cannot begin while a part of their image is missing, nil if
// they can.
func ReadsBlocks(k Kind) error {
	if r, ok := k.(BlockReader); ok {
		return r.ReadsBlocks()
	}
	return errors.New("it has no way to")
}
