package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/job"
)

// jobsCommand is `jobs`: those of one box, or of all. Jobs that have ended are listed until `jobs
// rm`, or until their box goes. --json is a list of agentbox.Job; --quiet the ids.
func (a *app) jobsCommand() *cli.Command {
	var all bool
	return &cli.Command{
		Name: "jobs", Category: catInside, Usage: "list the jobs of a box: commands that go on when nobody looks", ArgsUsage: "[BOX]",
		Description: "agentbox exec -d starts one, agentbox attach joins it, agentbox logs prints what it wrote.",
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "the jobs of every box", Destination: &all}},
		Commands:    []*cli.Command{a.jobsKillCommand(), a.jobsRmCommand()},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return tell(ctx, a, api.ListJobs, api.JobList{BoxRef: a.ref(cmd.Args().First()), All: all}, jobsFacts)
		},
	}
}

// jobsFacts are jobs. The time of one that runs is counted until now.
func jobsFacts(jobs []agentbox.Job) facts {
	return listed(jobs, []string{"JOB", "BOX", "STATE", "EXIT", "STARTED", "TOOK", "COMMAND"}, func(j agentbox.Job) (string, []string) {
		// One that runs has no code and no end yet.
		exit, end := "", time.Now()
		if j.Exit != nil {
			exit = strconv.Itoa(*j.Exit)
		}
		if !j.Ended.IsZero() {
			end = j.Ended
		}
		return j.ID.String(), []string{
			j.ID.String(), j.BoxName, string(j.State), exit, agoText(j.Started) + " ago", tookText(end.Sub(j.Started)), commandText(j.Command),
		}
	})
}

// commandText is a command on one line. It is cut to 60 characters, in the middle: tasks of one
// command differ at the end.
func commandText(argv []string) string {
	const most, tail = 60, 20
	text := []rune(oneLine(strings.Join(argv, " ")))
	if len(text) <= most {
		return string(text)
	}
	return string(text[:most-tail-1]) + "…" + string(text[len(text)-tail:])
}

// jobsKillCommand is `jobs kill`. The signal goes to the processes of the job in the box; whether
// they end is for them, and it is not waited for.
func (a *app) jobsKillCommand() *cli.Command {
	var signal string
	return &cli.Command{
		Name: "kill", Usage: "send a signal to the processes of jobs", ArgsUsage: "JOB...",
		Flags: []cli.Flag{&cli.StringFlag{Name: "signal", Aliases: []string{"s"}, Usage: "send `SIGNAL`", Value: "TERM", Destination: &signal}},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return eachJob(cmd, func(id string) error {
				// The call takes whole ids; people give beginnings of them.
				found, err := call(ctx, a, api.ShowJob, api.JobRef{Job: id})
				if err != nil {
					return err
				}
				// KILL, kill and SIGKILL are the same.
				name := strings.TrimPrefix(strings.ToUpper(signal), "SIG")
				_, err = call(ctx, a, api.SignalJob, api.JobSignal{ID: found.Job.ID, Signal: name})
				return err
			})
		},
	}
}

// jobsRmCommand is `jobs rm`: record and transcript go. A job that runs is refused by the daemon.
func (a *app) jobsRmCommand() *cli.Command {
	return &cli.Command{
		Name: "rm", Usage: "forget jobs that have ended, and what they wrote", ArgsUsage: "JOB...",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return eachJob(cmd, func(id string) error {
				_, err := call(ctx, a, api.RemoveJob, api.JobRef{Job: id})
				return err
			})
		},
	}
}

// eachJob does something for each job on the command line, in order, and ends with the first
// failure. Jobs are named by id only: the word for "the one that runs in the box" is too easy to
// get wrong here.
func eachJob(cmd *cli.Command, do func(id string) error) error {
	for _, id := range cmd.Args().Slice() {
		if !isJob(id) {
			return agentbox.Errorf(agentbox.Invalid, "%q is not a job's id", id).WithHint("agentbox jobs lists them: they begin with j-")
		}
		if err := do(id); err != nil {
			return err
		}
	}
	return nil
}

// isJob tells a job's id, or the beginning of one, from a box. A box whose name looks like one has
// to be given by its own id where both are possible.
func isJob(arg string) bool { return strings.HasPrefix(arg, "j-") }

// detach starts a command as a job and prints its id. The id is drawn here, so that the call can be
// made again without starting a second job. A command that the box refuses to run (126, 127) ends
// this program with the same code, as if it had been run in the foreground. --json is an
// api.JobStarted.
func (a *app) detach(ctx context.Context, box string, r run, input bool) error {
	spec := api.JobSpec{ID: agentbox.NewJobID(), Argv: r.argv, Dir: r.dir, Env: r.env, User: r.user, TTY: r.tty, Input: input}
	if r.tty {
		spec.Term = os.Getenv("TERM")
		spec.Columns, spec.Rows = a.terminalSize()
	}
	started, err := call(ctx, a, api.StartJob, api.JobStart{BoxRef: a.ref(box), Spec: spec})
	if err != nil {
		return err
	}
	// The box was reached and said no: that is the command's failure, so the exit code is the
	// shell's for it.
	if why := started.Refused; why != nil {
		fmt.Fprintf(a.stderr, "agentbox: %s\n", oneLine(why.Reason))
		return exit(why.Status)
	}
	return a.report(facts{value: started, ids: []string{started.ID.String()}, text: started.ID.String()})
}

// terminalSize is that of the terminal we have, else 80 by 24.
func (a *app) terminalSize() (columns, rows int) {
	if w, h, err := term.GetSize(int(a.stdin.Fd())); err == nil && w > 0 && h > 0 {
		return w, h
	}
	return 80, 24
}

// printJob prints what a job wrote: its transcript, a file of this host, which is there for jobs
// that have ended, too. l.follow goes on to the job's end.
func (a *app) printJob(ctx context.Context, ref api.BoxRef, id string, l logs) error {
	if l.console || l.supervisor {
		return agentbox.Errorf(agentbox.Invalid, "--console, --supervisor and the id of a job exclude each other")
	}
	found, err := call(ctx, a, api.ShowJob, api.JobRef{BoxRef: ref, Job: id})
	if err != nil {
		return err
	}
	t := job.OpenTranscript(found.Dir)
	if l.cast {
		return t.WriteCast(ctx, a.stdout)
	}
	if l.tail >= 0 {
		return a.tailJob(ctx, t, l)
	}
	return t.WriteText(ctx, a.stdout, l.follow)
}

// tailJob prints the last lines of what a job wrote. It counts them first: how many there are is
// known at the end only. A transcript has terminal output in pieces of any size, so lines cannot be
// found from its end. It is bounded, so that all of it can be held.
func (a *app) tailJob(ctx context.Context, t job.Transcript, l logs) error {
	var all bytes.Buffer
	if err := t.WriteText(ctx, &all, false); err != nil {
		return err
	}
	skip := -l.tail
	for range bytes.Lines(all.Bytes()) {
		skip++
	}
	return t.WriteText(ctx, &lineSkipper{w: a.stdout, skip: skip}, l.follow)
}

// lineSkipper leaves out the first lines that are written to it, skip of them, and passes the rest
// on.
type lineSkipper struct {
	w    io.Writer
	skip int
}

// Write implements io.Writer. It says that it took everything, also what it left out.
func (s *lineSkipper) Write(b []byte) (int, error) {
	rest := b
	for s.skip > 0 && len(rest) > 0 {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			return len(b), nil
		}
		rest = rest[end+1:]
		s.skip--
	}
	_, err := s.w.Write(rest)
	return len(b), err
}
