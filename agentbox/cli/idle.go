package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// idleCommand groups the verbs about what this machine does for others of its team.
func (a *app) idleCommand() *cli.Command {
	show := func(of func(api.IdleStatus) facts) cli.ActionFunc {
		return func(ctx context.Context, _ *cli.Command) error {
			return callAndReport(ctx, a, api.ShowIdle, api.None{}, of)
		}
	}
	return &cli.Command{
		Name: "idle", Category: catHost, Usage: "let this machine run tasks of its team while nobody needs it",
		Commands: []*cli.Command{
			a.idleAllowCommand(),
			{Name: "deny", Usage: "run no task of others, and give back those that run", Action: func(ctx context.Context, _ *cli.Command) error {
				return callAndReport(ctx, a, api.SetIdle, api.IdlePolicy{}, idleFacts)
			}},
			{Name: "status", Usage: "say what is measured, and whether this machine takes a task now", Action: show(idleFacts)},
			{Name: "policy", Usage: "say what this machine's owner allows", Action: show(func(s api.IdleStatus) facts {
				return facts{value: s.Policy, table: idlePolicyRows(s.Policy)}
			})},
		},
	}
}

func (a *app) idleAllowCommand() *cli.Command {
	p := api.IdlePolicy{Allowed: true}
	hours := ""
	return &cli.Command{
		Name: "allow", Usage: "run tasks of this team's members while nobody needs this machine",
		Description: "Tasks run in boxes under this machine's own policy and limits. What is not given as a flag has its default again.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "hours", Usage: "only at this `TIME` of day, such as 19:00-07:00", Destination: &hours},
			&cli.StringSliceFlag{Name: "member", Usage: "only tasks of `PEER`; can be repeated", Destination: &p.Members},
			&cli.IntFlag{Name: "tasks", Value: 1, Usage: "at most `N` at once", Destination: &p.Tasks},
			&cli.StringSliceFlag{Name: "label", Usage: "say that this machine has `LABEL`, for tasks that ask for it; can be repeated", Destination: &p.Labels},
			&cli.BoolFlag{Name: "always", Usage: "even while somebody works at this machine", Destination: &p.Always},
			&cli.BoolFlag{Name: "battery", Usage: "on battery, too", Destination: &p.Battery},
		},
		Action: func(ctx context.Context, _ *cli.Command) error {
			if from, to, ok := strings.Cut(hours, "-"); hours != "" {
				if !ok {
					return agentbox.Errorf(agentbox.Invalid, "--hours %s is not a span of time", hours).WithHint("for example --hours 19:00-07:00")
				}
				p.From, p.To = from, to
			}
			return callAndReport(ctx, a, api.SetIdle, p, idleFacts)
		},
	}
}

func idlePolicyRows(p api.IdlePolicy) [][]string {
	if !p.Allowed {
		return [][]string{{"allowed", "no; agentbox idle allow allows it"}}
	}
	rows := [][]string{{"allowed", "while nobody needs it"}, {"hours", "any"}, {"for", "all members"}, {"at once", agentbox.Plural(max(p.Tasks, 1), "task")}}
	if p.Always {
		rows[0][1] = "always"
	}
	if p.From != "" {
		rows[1][1] = p.From + "-" + p.To
	}
	if len(p.Labels) > 0 {
		rows = append(rows, []string{"labels", strings.Join(p.Labels, ", ")})
	}
	if len(p.Members) > 0 {
		rows[2][1] = strings.Join(p.Members, ", ")
	}
	return rows
}

// idleFacts are the facts of `idle status`.
func idleFacts(s api.IdleStatus) facts {
	rows := idlePolicyRows(s.Policy)
	f := s.Facts
	if f.Load != nil {
		rows = append(rows, []string{"load", fmt.Sprintf("%.0f%% of the CPUs", 100**f.Load)})
	}
	if f.Pressure != nil {
		rows = append(rows, []string{"pressure", fmt.Sprintf("%.0f%% of the time something waits for a CPU", *f.Pressure)})
	}
	switch {
	case f.Input == nil:
		rows = append(rows, []string{"input", "unknown: no session tells logind"})
	case f.Input.IsZero():
		rows = append(rows, []string{"input", "nobody is here"})
	default:
		rows = append(rows, []string{"input", "somebody is here since " + f.Input.Local().Format(time.TimeOnly)})
	}
	if f.Battery != nil && *f.Battery {
		rows = append(rows, []string{"power", "battery"})
	}
	if f.Metered != nil && *f.Metered {
		rows = append(rows, []string{"network", "paid by the byte"})
	}
	rows = append(rows, []string{"running", agentbox.Plural(f.Running, "task") + " of others"})
	rows = append(rows, []string{"boxes", idleBoxesText(s.Boxes)})
	return facts{value: s, table: append(rows, []string{"now", idleText(s)})}
}

// idleBoxesText says how boxes of others give way to this machine's owner.
func idleBoxesText(b api.IdleBoxes) string {
	text := fmt.Sprintf("niced by %d, read and write last", b.Nice)
	if b.Idle {
		text = "get what nobody else wants of CPUs and disks"
	}
	switch {
	case !b.Group:
		return text + "; no control group here is this user's"
	case !b.Memory:
		return text + ", each in a control group, without memory.high: this user has no memory controller here"
	}
	return text + ", each in a control group with memory.high"
}

// againstText says why a machine takes no task of others.
func againstText(r api.IdleReason) string {
	words := map[api.IdleReason]string{
		api.IdleDenied: "its owner has not allowed it", api.IdleHours: "it is not within the hours", api.IdleInput: "somebody works at it",
		api.IdleLoad: "it is busy", api.IdlePressure: "its CPUs are short", api.IdleBattery: "it is on battery", api.IdleFull: "it runs as many tasks as it may",
		api.IdleSleep: "it is about to sleep", api.IdleMetered: "its network is paid by the byte",
	}
	return cmp.Or(words[r], agentbox.Printable(string(r)))
}

func idleText(s api.IdleStatus) string {
	var why []string
	for _, r := range s.Against {
		why = append(why, againstText(r))
	}
	if len(why) == 0 {
		return "takes a task"
	}
	return "takes no task: " + strings.Join(why, ", ")
}
