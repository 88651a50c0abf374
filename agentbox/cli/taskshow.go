package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/policy"
)

// taskLsCommand is `task ls` and, with --by, the sums of what tasks have used.
func (a *app) taskLsCommand() *cli.Command {
	// The daemon finds the project from the directory, so that only one place decides what a
	// project is.
	var req api.TaskList
	var by string
	return &cli.Command{
		Name: "ls", Usage: "list the tasks of this project, and what they used",
		Description: "A project is one repository in any of its checkouts. Outside of a repository it lists all tasks.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "list the tasks of all projects", Destination: &req.All},
			&cli.StringFlag{Name: "by", Usage: "sum what they used by `GROUP`: " + groupNames, Destination: &by},
		},
		Action: func(ctx context.Context, _ *cli.Command) (err error) {
			// A directory that was removed has no project, but its tasks can still be listed.
			if req.Directory, err = os.Getwd(); err != nil {
				req.All = true
			}
			group, known := taskGroups[by]
			switch {
			case by == "":
				return callAndReport(ctx, a, api.ListTasks, req, taskFacts)
			case !known:
				return unknownGroup(by)
			}
			return callAndReport(ctx, a, api.ListTasks, req, func(all []agentbox.Task) facts { return sumFacts(all, by, group) })
		},
	}
}

// taskRef returns the task that a command names. The daemon accepts IDs and unique prefixes.
func taskRef(cmd *cli.Command) api.TaskRef { return api.TaskRef{Task: cmd.Args().First()} }

// taskFacts returns the facts about tasks, and the sum of what they have used. Exit code, time and
// work are those of the last attempt. --json prints a list of agentbox.Task; --quiet the IDs.
func taskFacts(all []agentbox.Task) facts {
	f := listed(all, []string{"TASK", "STATE", "EXIT", "AGE", "TOOK", "COST", "WORK", "DIRECTORY", "COMMAND"}, func(t agentbox.Task) (string, []string) {
		// These are empty for a task that has not begun.
		exit, took, work := "", "", ""
		if last := t.Last(); last != nil {
			took = tookText(tookOf(*last))
			if r := last.Result; r != nil {
				work = outcomeText(*r)
				if t.For != nil {
					work += "; " + remainsText(t)
				}
				if r.Exit != nil {
					exit = fmt.Sprint(*r.Exit)
				}
			}
		}
		return t.ID.String(), []string{
			t.ID.String(), string(t.State), exit, agoText(t.Created), took, costsText(t.Costs), work, filepath.Base(t.Directory), taskText(t),
		}
	})
	f.text = allTasks(all)
	return f
}

// taskText says what a task is to do: its command, or its agent and the prompt.
func taskText(t agentbox.Task) string {
	// The agent's own flags are the same for every prompt, so they say nothing about the task.
	if t.Agent != "" && len(t.Command) > 0 {
		return commandText([]string{t.Agent + ":", t.Command[len(t.Command)-1]})
	}
	return commandText(t.Command)
}

// outcomeText says what an attempt left and, if the exit code does not show it, why it ended.
func outcomeText(r agentbox.Result) string {
	text := r.WorkText()
	if r.Reason != "" && (r.Exit == nil || r.Reason != fmt.Sprintf("exit code %d", *r.Exit)) {
		text += ": " + cut(reasonText(r), 80)
	}
	return text
}

// taskShowCommand is `task show`: what each attempt left and used, where its files are, and a
// timeline. --json prints an api.TaskInfo; --quiet the ID.
func (a *app) taskShowCommand() *cli.Command {
	return &cli.Command{
		Name: "show", Usage: "show the attempts, results and timeline of a task", ArgsUsage: "TASK",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return callAndReport(ctx, a, api.ShowTask, taskRef(cmd), func(info api.TaskInfo) facts {
				return facts{value: info, ids: []string{info.Task.ID.String()}, table: infoRows(info)}
			})
		},
	}
}

// infoRows returns the rows about a task: first the attempts, with what each left and used; then
// the current state; then the location of the files; and last the timeline, which is the longest.
func infoRows(info api.TaskInfo) [][]string {
	t := info.Task
	rows := [][]string{{"task", t.ID.String()}, {"state", string(t.State)}, {"project", t.Project}, {"directory", t.Directory}, {"command", taskText(t)}}
	if place := placeText(t); t.Where != "" {
		rows = append(rows, []string{"where", cmp.Or(place, "waits for a machine that takes it")})
	}
	rows = append(rows, waitRows(t, info.Waits)...)
	if last := t.Last(); last != nil && last.Saved != nil {
		s := last.Saved
		text := fmt.Sprintf("%s: %s, %s; snapshot %s", s.Time.Local().Format(time.DateTime), agentbox.Plural(s.Commits, "commit"), agentbox.Plural(s.Files, "uncommitted file"), s.Snapshot.Short())
		rows = append(rows, []string{"saved", text})
	}
	if t.For != nil {
		rows = append(rows, []string{"for", fmt.Sprintf("task %s of %s", t.For.Task, t.For.Name)})
		rows = append(rows, loanRows(*t.For)...)
		if until := t.KeptUntil(); !until.IsZero() {
			rows = append(rows, []string{"stays", "until " + until.Local().Format(time.DateOnly) + ": " + remainsText(t)})
		}
	}
	if len(t.Secrets) > 0 {
		rows = append(rows, []string{"lends", strings.Join(t.Secrets, ", ") + ", to the machine that runs it, for each request"})
	}
	for _, id := range t.After {
		rows = append(rows, []string{"after", id.String()})
	}
	if t.Schedule != "" {
		rows = append(rows, []string{"schedule", t.Schedule})
	}
	for _, at := range t.Attempts {
		if r := at.Result; r != nil {
			rows = append(rows, []string{fmt.Sprintf("attempt %d", at.Number), string(r.State) + ": " + withEnd(r.WorkText(), r.End)})
			rows = append(rows, usedRows(*r, at.Worker)...)
			rows = append(rows, checkRows(*r)...)
		}
	}
	if last := t.Last(); info.Now != nil && last != nil {
		rows = append(rows, usedRows(*info.Now, last.Worker)...)
	}
	rows = append(rows, evidenceRows(t)...)
	for _, m := range timelineEvents(info) {
		took := ""
		if m.Took > 0 {
			took = " (" + tookText(m.Took) + ")"
		}
		rows = append(rows, []string{m.Time.Local().Format(time.TimeOnly), m.Event + " " + m.Detail + took})
	}
	return rows
}

// remainsText says why a task of another machine that has ended is still here.
func remainsText(t agentbox.Task) string {
	if t.Delivered {
		return "its box has what could not be sent to " + t.For.Name
	}
	return t.For.Name + " does not have its result yet"
}

// loanRows say which secrets the owner of a task lends to its box, and where they go.
func loanRows(o agentbox.TaskOrigin) (rows [][]string) {
	loan, _ := policy.ParseLoan(o.Loan) // it was parsed before
	for _, s := range loan.Secrets {
		rows = append(rows, []string{"borrows", fmt.Sprintf("%s of %s, to %s", s.Name, o.Name, rulesText(s.Scope))})
	}
	return rows
}

// waitRows say since when a task waits, for what, and why each machine does not take it.
func waitRows(t agentbox.Task, w *api.TaskWait) [][]string {
	if w == nil {
		return nil
	}
	var needs []string
	if label, is := strings.CutPrefix(t.Where, "label="); is {
		needs = append(needs, "label "+label)
	}
	if w.CPUs > 0 {
		needs = append(needs, agentbox.Plural(w.CPUs, "CPU"))
	}
	if w.Memory > 0 {
		needs = append(needs, bytesText(w.Memory))
	}
	text := "since " + w.Since.Local().Format(time.DateTime)
	if len(needs) > 0 {
		text += " for " + strings.Join(needs, ", ")
	}
	rows := [][]string{{"waits", text}}
	if w.Problem != "" {
		rows = append(rows, []string{"", w.Problem})
	}
	if len(w.Machines) == 0 {
		rows = append(rows, []string{"", "no machine of the team that is here runs tasks of others; agentbox idle allow, there"})
	}
	for _, m := range w.Machines {
		rows = append(rows, []string{"", m.Name + ": " + cmp.Or(missingText(t, *w, m), "it may be busy")})
	}
	return rows
}

// missingText says what a machine lacks for a task, or why it takes none.
func missingText(t agentbox.Task, w api.TaskWait, m api.TeamMachine) string {
	var why []string
	if label, is := strings.CutPrefix(t.Where, "label="); is && !slices.Contains(m.Labels, label) {
		why = append(why, "it does not have label "+label)
	}
	if w.CPUs > m.CPUs {
		why = append(why, "it has "+agentbox.Plural(m.CPUs, "CPU"))
	}
	if w.Memory > m.Memory {
		why = append(why, "it has "+bytesText(m.Memory)+" for a box")
	}
	for _, r := range m.Against {
		why = append(why, againstText(r))
	}
	return strings.Join(why, ", ")
}

// taskEachCommand returns a verb that does one thing to each named task. It stops at the first
// failure; what it has done before that stays done.
func (a *app) taskEachCommand(name, usage string, e api.Endpoint[api.TaskRef, agentbox.Task]) *cli.Command {
	return &cli.Command{
		Name: name, Usage: usage, ArgsUsage: "TASK...",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			var all []agentbox.Task
			for _, id := range cmd.Args().Slice() {
				t, err := call(ctx, a, e, api.TaskRef{Task: id})
				if err != nil {
					return err
				}
				all = append(all, t)
			}
			return a.reportTaskIDs(all)
		},
	}
}

// taskRetryCommand is `task retry`.
func (a *app) taskRetryCommand() *cli.Command {
	cmd := a.taskEachCommand("retry", "submit tasks again that have ended", api.RetryTask)
	batch, each := false, cmd.Action
	cmd.Flags = []cli.Flag{&cli.BoolFlag{Name: "batch", Usage: "go on with what TASK was submitted with: all that ended without success, from the same checkout and with the same --parallel and --batch-cost", Destination: &batch}}
	cmd.Action = func(ctx context.Context, cmd *cli.Command) error {
		if !batch {
			return each(ctx, cmd)
		}
		if cmd.Args().Len() != 1 {
			return agentbox.Errorf(agentbox.Invalid, "--batch takes one task of the batch")
		}
		all, err := call(ctx, a, api.RetryBatch, taskRef(cmd))
		if err != nil {
			return err
		}
		return a.reportTaskIDs(all)
	}
	return cmd
}

// taskTransferCommand is `task transfer`. It prints the IDs of the tasks.
func (a *app) taskTransferCommand() *cli.Command {
	var req api.TaskTransfer
	back := false
	return &cli.Command{
		Name: "transfer", Usage: "have a builder of the team keep tasks for machines of the team, so that this machine may sleep", ArgsUsage: "[TASK...]",
		Description: "Without TASK, all go that wait for a machine or have one. The builder has others run them, and sends back what they did when this machine is there.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "to", Usage: "give them to `PEER`", Destination: &req.To},
			&cli.BoolFlag{Name: "back", Usage: "take them back", Destination: &back},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if req.Tasks = cmd.Args().Slice(); back == (req.To != "") {
				return agentbox.Errorf(agentbox.Invalid, "say to whom they go, or that they come back").WithHint("agentbox task transfer --to PEER, or --back")
			}
			all, err := call(ctx, a, api.TransferTasks, req)
			if err != nil {
				return err
			}
			return a.reportTaskIDs(all)
		},
	}
}

// taskAttachCommand is `task attach`: attach for a task's job. Detaching leaves the task running.
func (a *app) taskAttachCommand() *cli.Command {
	return &cli.Command{
		Name: "attach", Usage: "attach this terminal to a running task", ArgsUsage: "TASK",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			found, err := a.jobOfTask(ctx, taskRef(cmd))
			if err != nil {
				return err
			}
			return a.attach(ctx, found, false)
		},
	}
}

// jobOfTask returns the job of a running task. For any other task the error is Conflict.
func (a *app) jobOfTask(ctx context.Context, ref api.TaskRef) (agentbox.Job, error) {
	info, err := call(ctx, a, api.ShowTask, ref)
	if err != nil {
		return agentbox.Job{}, err
	}
	// A task between two attempts has no job, although it is not finished.
	last := info.Task.Last()
	if info.Task.State != agentbox.TaskRunning || last == nil {
		return agentbox.Job{}, agentbox.Errorf(agentbox.Conflict, "task %s is not running: it is %s", info.Task.ID, info.Task.State).
			WithHint("agentbox task logs %s prints its output", info.Task.ID)
	}
	if info.Task.Where != "" {
		return call(ctx, a, api.ShowJob, api.JobRef{BoxRef: api.BoxRef{Box: info.Task.ID.String()}})
	}
	return call(ctx, a, api.ShowJob, api.JobRef{BoxRef: api.BoxRef{Box: last.BoxName}, Job: last.Job.String()})
}

// taskLogsCommand is `task logs`. It prints a transcript: what the command wrote to its terminal or
// streams, in that order.
func (a *app) taskLogsCommand() *cli.Command {
	var l logs
	var service string
	return &cli.Command{
		Name: "logs", Usage: "print the output of a task's last attempt", ArgsUsage: "TASK",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "keep printing until the task ends, or until interrupted", Destination: &l.follow},
			&cli.BoolFlag{Name: "cast", Usage: "print an asciicast, for asciinema", Destination: &l.cast},
			&cli.StringFlag{Name: "service", Usage: "print the end of the log of `SERVICE` instead, of a task that has ended", Destination: &service},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			switch {
			case service != "" && (l.follow || l.cast):
				return agentbox.Errorf(agentbox.Invalid, "--service cannot be combined with --follow or --cast")
			case service != "":
				return download(ctx, a, api.TaskLog, api.TaskLogRequest{TaskRef: taskRef(cmd), Service: service}, a.stdout)
			}
			return a.taskLogs(ctx, taskRef(cmd), l)
		},
	}
}

// taskPoll is the interval at which taskLogs polls a task whose command has not begun. A fifth of
// a second is short enough for people who watch.
const taskPoll = 200 * time.Millisecond

// taskLogs prints what a task's command wrote in its last attempt: from its job while that runs,
// and afterwards from the evidence, because the box is gone. With l.follow it waits for the command
// to begin (for room, and for the box to be made), and follows it to its end.
func (a *app) taskLogs(ctx context.Context, ref api.TaskRef, l logs) error {
	for {
		info, err := call(ctx, a, api.ShowTask, ref)
		if err != nil {
			return err
		}
		last := info.Task.Last()
		// It has ended: its box and the job's own files are gone, or will be in a moment.
		if last != nil && last.Result != nil {
			return download(ctx, a, api.TaskLog, api.TaskLogRequest{TaskRef: ref, Cast: l.cast}, a.stdout)
		}
		if last != nil && info.Task.Where != "" {
			if l.follow && !l.cast {
				return download(ctx, a, api.TaskLog, api.TaskLogRequest{TaskRef: ref, Follow: true}, a.stdout)
			}
			if last.Worker != "" && !l.follow {
				return download(ctx, a, api.TaskLog, api.TaskLogRequest{TaskRef: ref, Cast: l.cast}, a.stdout)
			}
		} else if last != nil {
			err := a.printJob(ctx, api.JobRef{BoxRef: api.BoxRef{Box: last.BoxName}, Job: last.Job.String()}, logs{follow: l.follow, cast: l.cast, tail: -1})
			// Not found means not yet: the box is being made, or its job is being started.
			if agentbox.CodeOf(err) != agentbox.NotFound {
				return err
			}
		}
		if !l.follow {
			return agentbox.Errorf(agentbox.Conflict, "task %s has no output yet: it is %s", info.Task.ID, info.Task.State).
				WithHint("agentbox task logs -f %s waits for it", info.Task.ID)
		}
		if err := sleep(ctx, taskPoll); err != nil {
			return err
		}
	}
}
