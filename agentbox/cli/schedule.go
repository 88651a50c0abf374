package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// taskScheduleCommand is `task schedule` and the verbs below it.
func (a *app) taskScheduleCommand() *cli.Command {
	s := submission{repeat: 1}
	missed := string(api.MissedOnce)
	return &cli.Command{
		Name: "schedule", Usage: "submit a task again and again, at the times of a crontab line", ArgsUsage: "TIMES -- CMD... | TIMES --agent NAME PROMPT",
		Description: "For example: agentbox task schedule \"0 19 * * 1-5\" -- make nightly\n" +
			"Each time, the task is made from this directory as it is then. A daemon has to run: see agentbox service install.",
		Flags: append(s.flags(), &cli.StringFlag{
			Name: "missed", Value: missed, Usage: "`HOW` to make up for times at which this machine was off: once (for all of them) or skip", Destination: &missed,
		}),
		Commands: []*cli.Command{
			{Name: "ls", Usage: "list schedules", Action: func(ctx context.Context, _ *cli.Command) error {
				return callAndReport(ctx, a, api.ListSchedules, api.None{}, scheduleFacts)
			}},
			{Name: "rm", Usage: "remove a schedule; its tasks stay", ArgsUsage: "SCHEDULE", Action: func(ctx context.Context, cmd *cli.Command) error {
				return callAndReport(ctx, a, api.RemoveSchedule, api.ScheduleRef{ID: cmd.Args().First()}, scheduleFact)
			}},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			words := cmd.Args().Slice()
			if len(words) == 0 {
				return agentbox.Errorf(agentbox.Invalid, "no times given").WithHint(`agentbox task schedule "0 19 * * 1-5" -- CMD...`)
			}
			argv := a.command
			if argv == nil {
				argv = words[1:]
			}
			if err := a.resolve(ctx, &s, argv); err != nil {
				return err
			}
			return callAndReport(ctx, a, api.ScheduleTasks, api.NewSchedule{Times: words[0], Missed: api.Missed(missed), Submission: s.req}, scheduleFact)
		},
	}
}

// scheduleFact is what is printed of one schedule: when it comes next.
func scheduleFact(s api.Schedule) facts {
	return facts{value: s, ids: []string{s.ID}, text: fmt.Sprintf("%s, next at %s", s.ID, s.Next.Local().Format("Mon 2006-01-02 15:04 MST"))}
}

func scheduleFacts(all []api.Schedule) facts {
	return listed(all, []string{"SCHEDULE", "TIMES", "NEXT", "LAST", "MISSED", "COMMAND"}, func(s api.Schedule) (string, []string) {
		last := ""
		switch {
		case s.Error != "":
			last = "failed: " + cut(s.Error, 60)
		case s.Batch != agentbox.TaskID{}:
			last = s.Batch.String()
		}
		command := ""
		if len(s.Submission.Commands) > 0 {
			command = taskText(agentbox.Task{TaskSpec: agentbox.TaskSpec{Agent: s.Submission.Spec.Agent, Command: s.Submission.Commands[0]}})
		}
		return s.ID, []string{s.ID, s.Times, s.Next.Local().Format(time.DateTime), last, fmt.Sprintf("%s (%d left out)", s.Missed, s.Skipped), command}
	})
}
