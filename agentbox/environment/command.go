package environment

import (
	"io"
	"os"
	"time"
)

// Command is one command in the environment. It is only read, and may be used again unless its
// streams are used up. The guest agent gets the arguments as they are; for other servers they are
// quoted for a shell (see Exec).
type Command struct {
	Argv []string          // exact arguments; none mean the user's login shell
	Env  map[string]string // added to what the environment gives every command
	Dir  string            // "" is the user's home, or wherever the environment starts commands
	User string            // "" is whom the client logged in as

	// Subsystem, if not "", is started instead of a command. Then Argv, Env, Dir and TTY are not
	// used.
	Subsystem string

	// Stdin may be nil (end of file at once). When the command ends while a read from it blocks,
	// that read is left behind: only the caller can interrupt it. Stdout and Stderr may be nil
	// (dropped); writes to each come from one goroutine. With a TTY the environment sends
	// everything to Stdout.
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	TTY     *PTY             // nil: no terminal
	Signals <-chan os.Signal // passed on while the command runs; nil: none
	Grace   time.Duration    // from SIGTERM to SIGKILL when the context ends; 0 means DefaultGrace
}

// DefaultGrace is how long a command may take to end after SIGTERM.
const DefaultGrace = 5 * time.Second

// PTY is the terminal a command gets.
type PTY struct {
	Term   string      // the value of TERM; "" means xterm
	Size   Size        //
	Resize <-chan Size // new sizes while the command runs; nil: never
}

// Size is the size of a terminal in characters.
type Size struct{ Width, Height int }

// Status is how a command ended, as a shell would say it.
type Status struct {
	Code   int    // 0 to 255; 128 plus the number when a signal killed it
	Signal string // name without SIG when a signal killed it
}
