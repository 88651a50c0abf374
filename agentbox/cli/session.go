package cli

import (
	"cmp"
	"context"
	"maps"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/term"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/environment"
)

// When a machine dies, this program notices before the daemon does. A little later the daemon knows,
// and wakes the box on request. Nothing has run in it yet, so nothing runs twice.
const (
	redials     = 5
	redialAfter = 50 * time.Millisecond
	// An attempt that took longer met a box that does not answer, rather than one that has ended.
	redialSlow = time.Second
)

// dial opens an SSH connection into a box, as user or, if that is "", as the box's own user. If the
// box has just ended, it asks the daemon for it again, see above. Any other error is returned at
// once. The caller closes the client.
func (a *app) dial(ctx context.Context, c api.Connection, user string) (*ssh.Client, error) {
	if user == "" {
		user = c.User
	}
	for tries := 0; ; tries++ {
		begun := time.Now()
		client, err := a.login(ctx, c, user)
		if tries == redials || agentbox.CodeOf(err) != agentbox.Unavailable || time.Since(begun) > redialSlow {
			return client, err
		}
		if err := sleep(ctx, redialAfter); err != nil {
			return nil, err
		}
		if c, err = a.connect(ctx, c.Box.String()); err != nil {
			return nil, err
		}
	}
}

// sleep waits for d, or returns the error of a context that ends before.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (a *app) login(ctx context.Context, c api.Connection, user string) (*ssh.Client, error) {
	login, err := environment.NewLogin(user, []byte(c.Key), []byte(c.HostKey))
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Corrupt, "box %s: %w", c.Name, err)
	}
	conn, err := a.dialBox(ctx, c)
	if err != nil {
		return nil, err
	}
	return environment.NewClient(ctx, conn, login)
}

// dialBox connects to the SSH server of a box. It does not speak SSH: stock ssh uses the connection.
func (a *app) dialBox(ctx context.Context, c api.Connection) (net.Conn, error) {
	m, err := a.machine()
	if err != nil {
		return nil, err
	}
	conn, err := m.Box(ctx, c.Box)
	if err != nil && ctx.Err() == nil {
		return nil, agentbox.Errorf(agentbox.Unavailable, "box %s does not answer: %w", c.Name, err).WithHint("agentbox show %s", c.Name)
	}
	return conn, err
}

// run is a command to run in a box with this program's standard streams. flags binds most fields to
// a verb's command line.
type run struct {
	argv []string // nil for the login shell
	// dir is a directory in the box; "" is the connection's, which corresponds to the caller's.
	dir     string
	env     map[string]string // added to the variables of the connection, and overrides them
	user    string            // of the box; "" for the configured one
	tty     bool              // give the command a terminal of the size of ours
	noStdin bool              // the command reads nothing: its input ends at once
}

// environ is env with what our terminal says of itself, for a command that gets one like it.
func (r run) environ() map[string]string {
	colors := os.Getenv("COLORTERM")
	if !r.tty || colors == "" {
		return r.env
	}
	return withDefaults(r.env, map[string]string{"COLORTERM": colors})
}

// runIn runs a command in a box with our standard streams, and returns a non-zero status as an exit
// error. It passes signals on to the command, which decides what they mean. Until the box is
// connected there is no command, so an interrupt ends us. It makes no call to the daemon unless the
// box must be woken again.
func (a *app) runIn(ctx context.Context, c api.Connection, r run) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(signals)
	client, err := a.dial(ctx, c, r.user)
	if err != nil {
		return interruptOr(ctx, err)
	}
	defer client.Close()
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // the command handles later signals
	env := maps.Clone(c.Env)
	if env == nil {
		env = map[string]string{}
	}
	// The user's --env overrides the variables that every command of the box has.
	maps.Copy(env, r.environ())
	cmd, restore, err := a.streams(!r.noStdin, r.tty)
	if err != nil {
		return err
	}
	defer restore()
	cmd.Argv, cmd.Env, cmd.Dir, cmd.Signals = r.argv, env, cmp.Or(r.dir, c.Dir), signals
	status, err := environment.Exec(ctx, client, cmd)
	if err != nil {
		return err
	}
	if status.Code != 0 {
		return exit(status.Code)
	}
	return nil
}

// interruptOr returns the error of a context that has ended, else err. So an interrupt is reported
// as such, and not as the error that it caused.
func interruptOr(ctx context.Context, err error) error { return cmp.Or(ctx.Err(), err) }

// enter is runIn for a box that stays. If a limit of the box ended the session, the error says which
// one, instead of only that the connection was lost.
func (a *app) enter(ctx context.Context, c api.Connection, r run) error {
	err := a.runIn(ctx, c, r)
	if b := a.boxAfterLoss(ctx, c.Box, err); !b.Limited().IsZero() {
		return limitError(b)
	}
	return err
}

// streams returns a command with our standard streams and, with tty, a terminal like ours. Call
// restore when the command has ended; see terminal.
func (a *app) streams(stdin, tty bool) (cmd environment.Command, restore func(), err error) {
	cmd, restore = environment.Command{Stdout: a.stdout, Stderr: a.stderr}, func() {}
	if stdin {
		cmd.Stdin = a.stdin
	}
	if tty {
		restore, err = a.terminal(&cmd)
	}
	return cmd, restore, err
}

// terminal puts our terminal into raw mode and gives the command a terminal of the same size. Call
// restore before printing anything else: in raw mode a newline does not return to the margin.
// restore also ends the goroutine that passes on size changes.
func (a *app) terminal(cmd *environment.Command) (restore func(), err error) {
	fd := int(a.stdin.Fd())
	width, height, err := term.GetSize(fd)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Invalid, "standard input is not a terminal").WithHint("leave out --tty")
	}
	old, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	// A size is passed on when the command's side accepts it, so the many changes of a window that
	// is being dragged become a few.
	sizes := make(chan environment.Size)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case <-resized:
			}
			if w, h, err := term.GetSize(fd); err == nil {
				select {
				case sizes <- environment.Size{Width: w, Height: h}:
				case <-done:
					return
				}
			}
		}
	}()
	cmd.TTY = &environment.PTY{Term: os.Getenv("TERM"), Size: environment.Size{Width: width, Height: height}, Resize: sizes}
	return func() {
		signal.Stop(resized)
		close(done)
		_ = term.Restore(fd, old)
	}, nil
}

// interactive reports whether standard input and standard output are terminals. Only then do verbs
// ask questions, open shells and use terminals: a pipe or a CI job must not wait for an answer.
func (a *app) interactive() bool {
	_, out := a.outTerminal()
	return out && term.IsTerminal(int(a.stdin.Fd()))
}

// outTerminal returns the file descriptor of standard output. ok is false if it is not a terminal.
func (a *app) outTerminal() (fd int, ok bool) {
	out, ok := a.stdout.(interface{ Fd() uintptr })
	if !ok {
		return -1, false
	}
	return int(out.Fd()), term.IsTerminal(int(out.Fd()))
}

// connect makes a box run and returns how to connect to it. box is a name, an ID or a prefix of
// one; "" is the box of this directory.
func (a *app) connect(ctx context.Context, box string) (api.Connection, error) {
	return call(ctx, a, api.Connect, a.ref(box))
}
