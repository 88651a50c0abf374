package place

import (
	"context"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/environment"
)

// Facts is what a kind found out about this machine.
type Facts struct {
	Version  string // of what runs the places
	Accel    string // kvm, hvf, tcg; "" where the word means nothing
	Hardware bool   // isolation rests on hardware virtualization
	Reason   string // why this acceleration, one line for the user
}

// Kind makes the places of one kind of isolation. Its methods may be called from any goroutine;
// those about one box do not overlap, but for Fill beside Create.
type Kind interface {
	// Probe says what the kind can do here. The error is Missing, with a hint, if it cannot work.
	// fresh drops what was found out before.
	Probe(ctx context.Context, fresh bool) (Facts, error)

	// Reserve makes room for the workspace of a box, so that a place can be given it before it is
	// filled. It costs next to nothing.
	Reserve(ctx context.Context, spec Spec) error

	// Fill makes the workspace from what source writes, an empty one without source. The workspace
	// may be reserved, or an empty one that a parked place has. On failure it is incomplete, and the
	// box is to be removed.
	Fill(ctx context.Context, spec Spec, source Source) error

	// Create begins a life of a box and returns before it answers. Conflict if the box has one.
	Create(ctx context.Context, spec Spec, progress agentbox.Progress) (Place, error)

	// Recover returns the live place of a box that an earlier process created, perhaps one that
	// never became the box, which Status tells. NotFound if the life has ended; Error.End then says
	// how, once, if that is known.
	Recover(ctx context.Context, spec Spec) (Place, error)

	// Remove drops the workspace and everything else that is kept of a box whose life has ended. It
	// may be repeated, also after a failure.
	Remove(ctx context.Context, spec Spec) error
}

// Source writes the files of a new workspace, and returns the directory that has them.
type Source func(ctx context.Context, into Tree) (dir string, err error)

// Tree is a directory of this machine for a Source to write to. It is empty or not there.
type Tree struct {
	Dir string
	// Limit is how many bytes it may take, 0 for any number. Beyond it Source fails with NoSpace.
	Limit int64
	// Temporary: the files are read once and removed by workspace.RemoveTemp(Dir), so they may lie
	// elsewhere.
	Temporary bool
}

// Place is one life of a box. Its methods may be called from any goroutine, also after the end,
// when they fail with Unavailable.
type Place interface {
	// Start waits until the place answers and turns it into the box. The workspace must be complete
	// by then, and a saved state that it begins with. as is nil for a place that was restored with
	// what runs in it, and for one that is to be parked (Parker), which gets another Start.
	Start(ctx context.Context, as *Identity) error

	// Session opens a way in. The user "" is whom the place runs commands as by itself. The caller
	// closes the session; the end of the place ends it.
	Session(ctx context.Context, user string) (Session, error)

	// Status says what goes on. What takes long is left out unless ask wants it; a guest that does
	// not answer only leaves its part out.
	Status(ctx context.Context, ask Question) (Status, error)

	// Done is closed when the life has ended, whatever ended it.
	Done() <-chan struct{}

	// End says why the life has ended, after Done is closed. known is false if nobody can tell, as
	// after a kill.
	End() (end agentbox.End, known bool)

	// Stop ends the life and returns when nothing of it runs any more. Processes get grace to end and
	// the workspace is synced within it; without grace it ends as at a power failure. It takes no
	// context, because an end that has begun must be completed. It may be repeated.
	Stop(grace time.Duration) error
}

// Session is one user's way into a place. Its methods may be called from any goroutine; after Close
// and after the end of the place they fail with Unavailable.
type Session interface {
	// Run runs one command, with environment.Exec's contract.
	Run(ctx context.Context, cmd environment.Command) (environment.Status, error)
	// Files opens the files as the user sees them. The caller closes them.
	Files(ctx context.Context) (*environment.Files, error)
	// Close ends what runs in the session. It may be repeated.
	Close() error
}
