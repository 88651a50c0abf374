package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/task/agents"
)

// taskCommand groups the verbs about tasks. The queue is in the daemon, so a submitted task no
// longer needs this program.
func (a *app) taskCommand() *cli.Command {
	return &cli.Command{
		Name: "task", Category: catBox, Usage: "run commands or agents in boxes of their own, and keep the results",
		Commands: []*cli.Command{
			a.taskSubmitCommand(), a.taskLsCommand(), a.taskReportCommand(), a.taskScheduleCommand(), a.taskShowCommand(), a.taskShareCommand(), a.taskLogsCommand(), a.taskAttachCommand(),
			a.taskTransferCommand(),
			a.taskEachCommand("cancel", "cancel tasks that run or wait in the queue", api.CancelTask),
			a.taskRetryCommand(),
			a.taskEachCommand("rm", "remove tasks that have ended, with their evidence", api.RemoveTask),
		},
	}
}

// submission is the input of task submit: the request for the daemon, and what is resolved here
// first, namely the number of repetitions, the file with a line per task, the agent, and whether to
// wait for the end.
type submission struct {
	req    api.TaskSubmission
	repeat int
	each   string
	agent  string
	after  []string
	wait   bool
}

// taskSubmitCommand is `task submit`. It prints an ID for each task, in the order of the lines and
// repetitions or, with --wait, how they ended.
func (a *app) taskSubmitCommand() *cli.Command {
	s := submission{repeat: 1}
	return &cli.Command{
		Name: "submit", Usage: "run a command in a new box, as soon as this machine has room", ArgsUsage: "-- CMD... | --agent NAME PROMPT",
		Description: "The box is created from this directory in its state when the task starts. The changes are saved as a git ref before the box is removed.\n" +
			"It prints the IDs of the tasks and returns; with --wait it waits and prints how they ended.\n" +
			"With --agent, an agent works on PROMPT without asking questions; agentbox agent lists the agents.",
		Flags: append(s.flags(), &cli.BoolFlag{Name: "wait", Usage: "wait for all tasks; the exit code is that of the first task that did not succeed, or 124 if a limit ended it", Destination: &s.wait}),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := a.intoLima(ctx, &s.req.Spec.Isolation, false); err != nil {
				return err
			}
			if err := a.resolve(ctx, &s, a.commandOr(cmd)); err != nil {
				return err
			}
			return a.submit(ctx, s)
		},
	}
}

// commandOr is the command after --, or else the words of the command line.
func (a *app) commandOr(cmd *cli.Command) []string {
	if a.command != nil {
		return a.command
	}
	return cmd.Args().Slice()
}

func (s *submission) flags() []cli.Flag {
	spec := &s.req.Spec
	return []cli.Flag{
		&cli.StringFlag{Name: "agent", Usage: "run agent `NAME` on a prompt", Destination: &s.agent},
		&cli.IntFlag{Name: "repeat", Usage: "submit the command `N` times", Value: 1, Destination: &s.repeat},
		&cli.StringFlag{Name: "where", Usage: "let `MACHINE` run it: here, idle (any of the team that is idle), label=NAME (an idle one that has it) a peer, or k8s[:CONTEXT] (a cluster)", Destination: &spec.Where},
		&cli.StringSliceFlag{Name: "secret", Usage: "lend secret `NAME` to the machine that runs it (with --where); can be repeated", Destination: &spec.Secrets},
		&cli.StringFlag{Name: "each", Usage: "submit the command once for each line of `FILE`, which replaces {} or is appended", Destination: &s.each},
		&cli.IntFlag{Name: "parallel", Aliases: []string{"p"}, Usage: "run at most `N` of them at once (default: as many as this machine has room for)", Destination: &s.req.Parallel},
		&cli.DurationFlag{Name: "timeout", Usage: "end each task after `TIME`", Destination: &spec.Limits.Wall},
		&cli.DurationFlag{Name: "idle", Usage: "end each task after `TIME` without output or network traffic", Destination: &spec.Limits.Idle},
		&cli.DurationFlag{Name: "cpu-time", Usage: "end each task after `TIME` of CPU time", Destination: &spec.Limits.CPU},
		&cli.FloatFlag{Name: "max-cost", Usage: "end each task when it has cost `AMOUNT`, in the currency of rates.yaml in the home (no effect without that file)", Destination: &spec.Limits.Cost},
		&cli.FloatFlag{Name: "batch-cost", Usage: "end all tasks of this submission when together they have cost `AMOUNT`, attempts that failed included", Destination: &spec.Limits.BatchCost},
		&cli.Int64Flag{Name: "max-tokens", Usage: "end each task when models have reported `N` tokens for it", Destination: &spec.Limits.Tokens},
		&cli.IntFlag{Name: "retries", Usage: "retry a task that failed or was lost up to `N` times", Destination: &spec.Retries},
		&cli.StringSliceFlag{Name: "after", Usage: "begin when `TASK` has succeeded, and give up if it does not; can be repeated", Destination: &s.after},
		&cli.BoolFlag{Name: "tty", Aliases: []string{"t"}, Usage: "give the command a terminal", Destination: &spec.TTY},
		&cli.StringFlag{Name: "user", Aliases: []string{"u"}, Usage: "run as `USER` of the box", Destination: &spec.User},
		&cli.StringFlag{Name: "workdir", Aliases: []string{"w"}, Usage: "run in `DIR` of the box", Destination: &spec.Dir},
		envFlag(&spec.Env),
		&cli.StringFlag{Name: "image", Usage: "use `IMAGE` instead of the configured one", Destination: &spec.Image},
		&cli.IntFlag{Name: "cpus", Usage: "give each box `N` CPUs", Destination: &spec.CPUs},
		&cli.StringFlag{Name: "memory", Usage: "give each box `SIZE` of memory, such as 2GiB", Destination: &spec.Memory},
		&cli.StringFlag{Name: "isolation", Usage: "use this `KIND` of isolation: " + agentbox.IsolationWords(), Action: func(_ context.Context, _ *cli.Command, v string) error {
			spec.Isolation = agentbox.Isolation(v)
			return nil
		}},
	}
}

// resolve checks a submission and makes its request. Without a flag, AGENTBOX_ISOLATION of our
// environment becomes part of the task, because a daemon with another environment may run it.
func (a *app) resolve(ctx context.Context, s *submission, argv []string) error {
	if err := s.check(argv); err != nil {
		return err
	}
	// Our environment decides what auto means, now; the daemon's may differ.
	if kind := os.Getenv(isolationEnv); s.req.Spec.Isolation == "" && kind != "" {
		s.req.Spec.Isolation = agentbox.Isolation(kind)
	}
	var err error
	if s.req.Commands, err = s.commands(argv); err != nil {
		return err
	}
	c, err := a.checkout(ctx)
	if err != nil {
		return err
	}
	s.req.Spec.Directory, s.req.Spec.Source, s.req.Environ = c.directory, c.source, a.environ()
	for _, name := range s.after {
		info, err := call(ctx, a, api.ShowTask, api.TaskRef{Task: name})
		if err != nil {
			return err
		}
		s.req.Spec.After = append(s.req.Spec.After, info.Task.ID)
	}
	// This comes after the other checks, because it may ask at the terminal.
	return a.taskOfAgent(ctx, s)
}

// submit submits a request. All tasks of one submission are one batch.
func (a *app) submit(ctx context.Context, s submission) error {
	all, err := call(ctx, a, api.SubmitTasks, s.req)
	if err != nil {
		return err
	}
	// Everything was submitted: interrupting the wait cancels nothing.
	if s.wait {
		return a.awaitTasks(ctx, all)
	}
	return a.reportTaskIDs(all)
}

// taskOfAgent turns prompts into an agent's commands, and grants what the agent needs. It joins the
// words of each command to one prompt. It grants last, when nothing can be refused any more.
func (a *app) taskOfAgent(ctx context.Context, s *submission) error {
	if s.agent == "" {
		return nil
	}
	profile, err := a.findAgent(ctx, s.agent)
	if err != nil {
		return err
	}
	for i, words := range s.req.Commands {
		if s.req.Commands[i], err = profile.PromptCommand(strings.Join(words, " ")); err != nil {
			return err
		}
	}
	s.req.Spec.Agent, s.req.Spec.Env = profile.Name, withDefaults(s.req.Spec.Env, profile.Env)
	s.req.Spec.AgentHosts = profile.HostNames()
	if err := a.grant(ctx, profile); err != nil {
		return err
	}
	return a.lendKeys(ctx, s, profile)
}

// lendKeys lends the keys of an agent to the machine of the team that will run it, and says so.
func (a *app) lendKeys(ctx context.Context, s *submission, profile agents.Profile) error {
	spec := &s.req.Spec
	if spec.Where == "" || spec.Where == "here" || strings.HasPrefix(spec.Where, "k8s") {
		return nil
	}
	ref, err := a.policyRef(ctx, "")
	if err != nil {
		return err
	}
	set, err := call(ctx, a, api.ListSecrets, ref)
	if err != nil {
		return err
	}
	for _, key := range profile.Secrets {
		known := slices.ContainsFunc(set, func(i api.SecretInfo) bool { return i.Name == key.Name })
		if !known || slices.Contains(spec.Secrets, key.Name) {
			continue
		}
		spec.Secrets = append(spec.Secrets, key.Name)
		if !a.quiet {
			fmt.Fprintf(a.stderr, "secret %s is lent to the machine that runs it, for each request\n", key.Name)
		}
	}
	return nil
}

// check refuses invalid combinations before anything is read or granted. The daemon checks the
// bounds of machines and limits.
func (s submission) check(argv []string) error {
	switch {
	case len(argv) == 0 && s.agent != "":
		return agentbox.Errorf(agentbox.Invalid, "no prompt given").WithHint("agentbox task submit --agent %s PROMPT", s.agent)
	case len(argv) == 0:
		return agentbox.Errorf(agentbox.Invalid, "no command given").WithHint("agentbox task submit -- CMD...")
	case s.repeat < 1 || s.repeat > 1000:
		return agentbox.Errorf(agentbox.Invalid, "--repeat %d is out of range: 1 to 1000", s.repeat)
	case s.req.Spec.Retries < 0:
		return agentbox.Errorf(agentbox.Invalid, "--retries %d is below 0", s.req.Spec.Retries)
	}
	return nil
}

// commands returns the commands of the tasks: one for each line and repetition. It allows 1000 at
// most, because each becomes a box.
func (s submission) commands(argv []string) ([][]string, error) {
	of := [][]string{argv}
	if s.each != "" {
		b, err := os.ReadFile(s.each)
		if err != nil {
			return nil, agentbox.Errorf(agentbox.Invalid, "--each: %w", err)
		}
		of = nil
		// Empty lines are not tasks: files end with one.
		for line := range strings.SplitSeq(strings.TrimRight(string(b), "\n"), "\n") {
			if line != "" {
				of = append(of, withLine(argv, line))
			}
		}
	}
	// Repetitions of one line stay together, so that their IDs do too.
	var all [][]string
	for _, command := range of {
		for range s.repeat {
			all = append(all, command)
		}
	}
	if len(all) == 0 || len(all) > 1000 {
		return nil, agentbox.Errorf(agentbox.Invalid, "%d tasks in one submission; allowed are 1 to 1000", len(all))
	}
	return all, nil
}

// withLine returns a command with the line in place of each {}, or appended if there is none.
func withLine(argv []string, line string) []string {
	var out []string
	found := false
	for _, word := range argv {
		// Like xargs -I, replace it in every word.
		found = found || strings.Contains(word, "{}")
		out = append(out, strings.ReplaceAll(word, "{}", line))
	}
	if !found {
		out = append(out, line)
	}
	return out
}

// reportTaskIDs prints the tasks that a verb has acted on: also for people, as IDs.
func (a *app) reportTaskIDs(all []agentbox.Task) error {
	f := taskFacts(all)
	return a.report(facts{value: f.value, ids: f.ids, text: strings.Join(f.ids, "\n")})
}

// awaitTasks waits for each task, and returns the failure of the first that did not succeed. It
// waits for one after the other, which takes no longer than for all at once. If the daemon is
// replaced, the next one continues the tasks, and the wait goes on.
func (a *app) awaitTasks(ctx context.Context, all []agentbox.Task) error {
	var result error
	for i := range all {
		t, err := callAcrossRestarts(ctx, a, api.WaitTask, all[i].ID)
		if err != nil {
			return err
		}
		all[i] = t
		// The first failure in the order of submission decides, not in the order of time, so that
		// the exit code is the same in every run.
		if result == nil {
			result = taskResult(all[i])
		}
	}
	if err := a.report(taskFacts(all)); err != nil {
		return err
	}
	return result
}

// taskResult returns how a task ended, as an exit code: 124 for a limit, the command's own code if
// it has one, 125 for a task that was lost or cancelled.
func taskResult(t agentbox.Task) error {
	last := t.Last()
	switch {
	case t.State == agentbox.TaskSucceeded:
		return nil
	case t.State == agentbox.TaskLimited:
		return exit(exitTimeout)
	case last != nil && last.Result != nil && last.Result.Exit != nil && *last.Result.Exit != 0:
		return exit(*last.Result.Exit)
	}
	return exit(exitFailed)
}
