package cli

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// jobsCommand is `jobs`: those of one box, or of all. Jobs that have ended are listed until `jobs
// rm` or until their box is removed. --json prints a list of agentbox.Job; --quiet the IDs.
func (a *app) jobsCommand() *cli.Command {
	var all bool
	return &cli.Command{
		Name: "jobs", Category: catInside, Usage: "list the jobs of a box: commands that keep running without a terminal", ArgsUsage: "[BOX]",
		Description: "Start a job with agentbox exec -d, join it with agentbox attach, and print its output with agentbox logs.",
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "list the jobs of all boxes", Local: true, Destination: &all}},
		Commands:    []*cli.Command{a.jobsKillCommand(), a.jobsRmCommand()},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return callAndReport(ctx, a, api.ListJobs, api.JobList{BoxRef: a.ref(cmd.Args().First()), All: all}, jobsFacts)
		},
	}
}

// jobsFacts returns the facts about jobs. A running job has taken the time until now.
func jobsFacts(jobs []agentbox.Job) facts {
	return listed(jobs, []string{"JOB", "BOX", "STATE", "EXIT", "STARTED", "TOOK", "COMMAND"}, func(j agentbox.Job) (string, []string) {
		// A running job has no exit code and no end yet.
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

// commandText returns a command on one line, 60 characters at most. The cut is in the middle,
// because tasks with the same command differ at its end.
func commandText(argv []string) string {
	const most, tail = 60, 20
	text := []rune(oneLine(strings.Join(argv, " ")))
	if len(text) <= most {
		return string(text)
	}
	return string(text[:most-tail-1]) + "…" + string(text[len(text)-tail:])
}

// jobsKillCommand is `jobs kill`. It sends a signal to the processes of the job in the box. They
// decide whether to end, and the command does not wait for that.
func (a *app) jobsKillCommand() *cli.Command {
	var signal string
	return &cli.Command{
		Name: "kill", Usage: "send a signal to the processes of jobs", ArgsUsage: "JOB...",
		Flags: []cli.Flag{&cli.StringFlag{Name: "signal", Aliases: []string{"s"}, Usage: "send `SIGNAL`", Value: "TERM", Destination: &signal}},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return eachJob(cmd, func(id string) error {
				// The call needs full IDs, but people type prefixes.
				found, err := call(ctx, a, api.ShowJob, api.JobRef{Job: id})
				if err != nil {
					return err
				}
				// KILL, kill and SIGKILL mean the same.
				name := strings.TrimPrefix(strings.ToUpper(signal), "SIG")
				_, err = call(ctx, a, api.SignalJob, api.JobSignal{ID: found.ID, Signal: name})
				return err
			})
		},
	}
}

// jobsRmCommand is `jobs rm`: it removes record and transcript of a job that has ended.
func (a *app) jobsRmCommand() *cli.Command {
	return &cli.Command{
		Name: "rm", Usage: "remove jobs that have ended, and their output", ArgsUsage: "JOB...",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return eachJob(cmd, func(id string) error {
				_, err := call(ctx, a, api.RemoveJob, api.JobRef{Job: id})
				return err
			})
		},
	}
}

// eachJob calls do for each job on the command line, in order, up to the first failure. Only IDs
// are allowed here: accidentally meaning "the one that runs in the box" would be too easy.
func eachJob(cmd *cli.Command, do func(id string) error) error {
	for _, id := range cmd.Args().Slice() {
		if !isJob(id) {
			return agentbox.Errorf(agentbox.Invalid, "%q is not the ID of a job", id).WithHint("agentbox jobs lists the IDs, which begin with j-")
		}
		if err := do(id); err != nil {
			return err
		}
	}
	return nil
}

// isJob reports whether arg looks like a job's ID or a prefix of one, rather than a box. If a box
// has such a name, name it by its own ID where both are possible.
func isJob(arg string) bool { return strings.HasPrefix(arg, "j-") }

// detach starts a command as a job and prints its ID. The ID is drawn here, so that the call can be
// repeated without starting a second job. If the box refuses to run the command (126, 127), this
// program exits with the same code, as if the command had run in the foreground. --json prints an
// api.JobStarted.
func (a *app) detach(ctx context.Context, box string, r run, input bool) error {
	spec := agentbox.JobSpec{ID: agentbox.NewJobID()}
	spec.Argv, spec.Dir, spec.Env, spec.User, spec.TTY, spec.Input = r.argv, r.dir, r.environ(), r.user, r.tty, input
	if r.tty {
		spec.Term = os.Getenv("TERM")
		spec.Columns, spec.Rows = a.terminalSize()
	}
	started, err := call(ctx, a, api.StartJob, api.JobStart{BoxRef: a.ref(box), Spec: spec})
	if err != nil {
		return err
	}
	// The box answered and refused: the command failed, with the shell's exit code for it.
	if why := started.Refused; why != nil {
		fmt.Fprintf(a.stderr, "agentbox: %s\n", oneLine(why.Reason))
		return exit(why.Status)
	}
	return a.report(facts{value: started, ids: []string{started.ID.String()}, text: started.ID.String()})
}

// terminalSize returns the size of our terminal, or 80 by 24 without one.
func (a *app) terminalSize() (columns, rows int) {
	if w, h, err := term.GetSize(int(a.stdin.Fd())); err == nil && w > 0 && h > 0 {
		return w, h
	}
	return 80, 24
}

// printJob prints what a job wrote, also after it has ended; with l.follow until it ends.
func (a *app) printJob(ctx context.Context, ref api.JobRef, l logs) error {
	if l.console || l.supervisor {
		return agentbox.Errorf(agentbox.Invalid, "--console and --supervisor cannot be combined with a job")
	}
	err := download(ctx, a, api.JobLog, api.JobLogRequest{JobRef: ref, LogRequest: l.request(), Cast: l.cast}, a.stdout)
	// An interrupt is the normal way to stop following.
	if l.follow && ctx.Err() != nil {
		return nil
	}
	return err
}
