package cli

import (
	"bytes"
	"context"
	"io"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/urfave/cli/v3"
	"golang.org/x/sync/errgroup"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/environment"
)

// logs holds the flags of a verb that prints a log. tail is a number of lines; negative means all.
// Not every verb has all of them.
type logs struct {
	follow, console, supervisor, cast bool
	tail                              int
}

// request is what the flags ask of a log that the daemon keeps.
func (l logs) request() api.LogRequest {
	r := api.LogRequest{Follow: l.follow}
	if l.tail >= 0 {
		r.Lines = &l.tail
	}
	return r
}

// logsCommand is `logs`, for four kinds of logs. Those of a job, the supervisor and the console are
// the daemon's, and can be read even if the box does not run. Those of services are in the box.
func (a *app) logsCommand() *cli.Command {
	var l logs
	return &cli.Command{
		Name: "logs", Category: catInside, Usage: "print the log of a job, of a box's services, or of its machine", ArgsUsage: "[BOX] [JOB | SERVICE...]",
		Description: "Without SERVICE it prints the logs of all services, with the service's name before each line. Write \"\" for the box of this\ndirectory. The log of a job is its output, including escape sequences.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "keep printing until interrupted", Destination: &l.follow},
			&cli.IntFlag{Name: "tail", Aliases: []string{"n"}, Usage: "print only the last `N` lines, and what follows", DefaultText: "everything", Value: -1, Destination: &l.tail},
			&cli.BoolFlag{Name: "cast", Usage: "print a job's log as an asciicast, for asciinema", Destination: &l.cast},
			&cli.BoolFlag{Name: "console", Usage: "print the machine's console instead: kernel and guest agent", Destination: &l.console},
			&cli.BoolFlag{Name: "supervisor", Usage: "print the log of the box's supervisor instead", Destination: &l.supervisor},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			// A job's log needs no running box, so check for a job first.
			if box, id, ok := jobOf(cmd.Args().Slice()); ok {
				return a.printJob(ctx, api.JobRef{BoxRef: api.BoxRef{Box: box}, Job: id}, l)
			}
			if l.cast {
				return agentbox.Errorf(agentbox.Invalid, "--cast applies only to a job").WithHint("agentbox jobs lists them")
			}
			b, err := call(ctx, a, api.ShowBox, a.ref(cmd.Args().First()))
			if err != nil {
				// A common mistake is `logs web` for the service web of this directory's box.
				return a.serviceForBox(ctx, cmd.Args().First(), err)
			}
			// An interrupt is the normal way to stop following, so it is no error.
			if err := a.printLogs(ctx, b, cmd.Args().Tail(), l); !l.follow || ctx.Err() == nil {
				return err
			}
			return nil
		},
	}
}

// jobOf returns the job that the arguments name, and its box if they name one.
func jobOf(args []string) (box, id string, ok bool) {
	switch {
	case len(args) == 1 && isJob(args[0]):
		return "", args[0], true
	case len(args) == 2 && isJob(args[1]):
		return args[0], args[1], true
	}
	return "", "", false
}

// serviceForBox gives err a better hint if the name of a box is a service of this directory's box.
func (a *app) serviceForBox(ctx context.Context, name string, err error) error {
	if name == "" || agentbox.CodeOf(err) != agentbox.NotFound {
		return err
	}
	b, rerr := call(ctx, a, api.ShowBox, a.ref(""))
	if rerr != nil {
		return err
	}
	for _, s := range b.Services {
		if s.Name == name {
			return agentbox.AsError(err).WithHint("agentbox logs %s %s prints the log of that service", b.Name, name)
		}
	}
	return err
}

func (a *app) printLogs(ctx context.Context, b agentbox.Box, services []string, l logs) error {
	switch {
	// The console and the supervisor's log are one file each, so the choices exclude each other.
	case (l.console || l.supervisor) && len(services) > 0, l.console && l.supervisor:
		return agentbox.Errorf(agentbox.Invalid, "--console, --supervisor and the names of services cannot be combined")
	case l.console || l.supervisor:
		return download(ctx, a, api.BoxLog, api.BoxLogRequest{BoxRef: api.BoxRef{Box: b.ID.String()}, LogRequest: l.request(), Supervisor: l.supervisor}, a.stdout)
	}
	services, err := chooseServices(b, services)
	if err != nil {
		return err
	}
	return a.printServices(ctx, b, services, l)
}

// chooseServices checks the names of services, or returns all of them. The logs are inside the box,
// so the box must already run: waking it would change what the user wants to look at.
func chooseServices(b agentbox.Box, wanted []string) ([]string, error) {
	var all []string
	for _, s := range b.Services {
		all = append(all, s.Name)
	}
	switch {
	case b.State != agentbox.Running:
		return nil, agentbox.Errorf(agentbox.Conflict, "box %s is %s, and the logs of its services are inside it", b.Name, b.State).
			WithHint("agentbox resume %s, or agentbox logs --console %s", b.Name, b.Name)
	case len(all) == 0:
		return nil, agentbox.Errorf(agentbox.NotFound, "box %s has no services", b.Name).
			WithHint("agentbox jobs %s lists its jobs, agentbox logs JOB prints one, and agentbox logs --console %s prints its console", b.Name, b.Name)
	case len(wanted) == 0:
		return all, nil
	}
	for _, name := range wanted {
		if !slices.Contains(all, name) {
			return nil, agentbox.Errorf(agentbox.NotFound, "box %s has no service %q", b.Name, name).
				WithHint("it has %s", strings.Join(all, ", "))
		}
	}
	return wanted, nil
}

// printServices prints the logs of services. Without following, they come one after the other, each
// as a whole. With following, all come at once and mix line by line, with the service's name before
// each line. The first failure ends all.
func (a *app) printServices(ctx context.Context, b agentbox.Box, services []string, l logs) error {
	c, files, done, err := a.openFiles(ctx, b.ID.String(), "")
	if err != nil {
		return err
	}
	defer done()
	work, ctx := errgroup.WithContext(ctx)
	// One at a time, so that the logs do not mix needlessly.
	if !l.follow {
		work.SetLimit(1)
	}
	var out sync.Mutex
	for _, name := range services {
		w := &prefixed{mu: &out, w: a.stdout}
		if len(services) > 1 {
			w.prefix = name + " | "
		}
		work.Go(func() error { return printService(ctx, files, path.Join(c.ServiceLog, name+".log"), l, w) })
	}
	return work.Wait()
}

// printService prints one log. A service that has not started yet has no log, which is no error.
func printService(ctx context.Context, files *environment.Files, name string, l logs, w *prefixed) error {
	f, err := files.Open(name)
	if agentbox.CodeOf(err) == agentbox.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := environment.Tail(ctx, f, l.tail, l.follow, w); err != nil {
		return err
	}
	return w.flush()
}

// prefixed puts a prefix before every line. Several writers that share one mutex (mu) do not mix
// their lines; each keeps its own incomplete line in rest.
type prefixed struct {
	mu     *sync.Mutex
	w      io.Writer
	prefix string
	rest   []byte // an incomplete line
}

// maxHeld is the length, in bytes, at which an incomplete line is printed anyway. A service that
// writes no newline must not fill our memory.
const maxHeld = 64 << 10

// Write implements io.Writer. It prints complete lines, and keeps the rest.
func (p *prefixed) Write(b []byte) (int, error) {
	p.rest = append(p.rest, b...)
	at := bytes.LastIndexByte(p.rest, '\n') + 1
	if at == 0 && len(p.rest) <= maxHeld {
		return len(b), nil
	}
	if at == 0 {
		at = len(p.rest)
	}
	// Complete lines are printed at once, so that no other writer can interrupt a line.
	err := p.print(p.rest[:at])
	p.rest = append(p.rest[:0], p.rest[at:]...)
	return len(b), err
}

// flush prints the rest: a last line without a newline.
func (p *prefixed) flush() error {
	if len(p.rest) == 0 {
		return nil
	}
	err := p.print(p.rest)
	p.rest = nil
	return err
}

// print writes whole lines. If others may follow, it adds a newline that the last one lacks.
func (p *prefixed) print(text []byte) error {
	if p.prefix != "" {
		lines := strings.TrimSuffix(string(text), "\n")
		text = []byte(p.prefix + strings.ReplaceAll(lines, "\n", "\n"+p.prefix) + "\n")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.w.Write(text)
	return err
}
