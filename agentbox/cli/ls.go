package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// lsCommand is `ls`. With --usage it measures, which takes some milliseconds per box. Without it,
// the cost is one call, whatever the boxes do. --json prints a list of agentbox.Box, or of
// api.TeamContext with --team; --quiet the IDs.
func (a *app) lsCommand() *cli.Command {
	var req api.ListRequest
	var team bool
	return &cli.Command{
		Name: "ls", Category: catBox, Usage: "list the boxes of this machine or, with --team, of all machines of the team",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "usage", Usage: "also measure memory, disk and CPU time", Destination: &req.Usage},
			&cli.BoolFlag{Name: "team", Usage: "list the boxes and tasks of every machine of the team", Destination: &team},
		},
		Action: func(ctx context.Context, _ *cli.Command) error {
			if team {
				return a.listTeam(ctx)
			}
			return callAndReport(ctx, a, api.ListBoxes, req, func(boxes []agentbox.Box) facts { return boxesFacts(boxes, req.Usage) })
		},
	}
}

// listTeam shows what the machines of the team work on, as they report it. Nothing is verified: a
// machine can claim anything about its boxes.
func (a *app) listTeam(ctx context.Context) error {
	return callAndReport(ctx, a, api.ListTeam, api.None{}, func(list []api.TeamContext) facts {
		return listed(list, []string{"MACHINE", "KIND", "NAME", "STATE", "BRANCH", "PROJECT", "ID"}, func(c api.TeamContext) (string, []string) {
			state := c.State
			// This is what the machine last reported.
			if !c.Online {
				state += " (machine absent)"
			}
			// IDs of other machines mean nothing to the verbs here, but they tell rows apart.
			return c.ID, []string{c.Machine, c.Kind, c.Name, state, c.Branch, c.Project, c.ID}
		})
	})
}

func boxesFacts(boxes []agentbox.Box, usage bool) facts {
	head := []string{"NAME", "ID", "STATE", "ISOLATION", "BRANCH", "AGE", "DIRECTORY"}
	// The header has these columns even if no box was measured.
	if usage {
		head = append(head, "MEMORY", "DISK", "CPU")
	}
	return listed(boxes, head, func(b agentbox.Box) (string, []string) {
		row := []string{b.Name, b.ID.String(), stateText(b), isolationText(b), b.Branch, agoText(b.Created), b.Directory}
		// Usage is absent if it was not measured, or the box does not run.
		if u := b.Usage; u != nil {
			row = append(row, bytesText(u.PSS), bytesText(u.Disk), (time.Duration(u.CPUMillis) * time.Millisecond).String())
		}
		return b.ID.String(), row
	})
}

// stateText returns the state, with its cause if a limit or the end of the lease led to it.
func stateText(b agentbox.Box) string {
	// This is only for a box that is still paused or stopped: one that runs again has moved on.
	which := b.Limited().String()
	if b.Ended != nil && b.Ended.Cause == agentbox.EndLease {
		which = "lease"
	}
	if which == "" || b.State == agentbox.Running {
		return string(b.State)
	}
	return string(b.State) + " (" + which + ")"
}

// isolationText returns the kind of machine, with the accelerator where the kind has several:
// microvm/kvm, microvm/tcg, gvisor.
func isolationText(b agentbox.Box) string {
	if b.Accel == "" {
		return string(b.Isolation)
	}
	return string(b.Isolation) + "/" + b.Accel
}

// showCommand is `show`. It also asks the guest, so it may take a while for a busy box. --json
// prints an agentbox.Box with its usage; --quiet the ID.
func (a *app) showCommand() *cli.Command {
	return &cli.Command{
		Name: "show", Category: catBox, Usage: "show everything about a box", ArgsUsage: "[BOX]",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return callAndReport(ctx, a, api.ShowBox, a.ref(cmd.Args().First()), func(b agentbox.Box) facts {
				return facts{value: b, ids: []string{b.ID.String()}, table: showRows(b)}
			})
		},
	}
}

// serviceText returns the state of a service and why it failed, in the box's words.
func serviceText(s agentbox.Service) string {
	text := fmt.Sprintf("%s: %s, %s", s.Name, s.State, agentbox.Plural(s.Restarts, "restart"))
	if s.Error != "" {
		text += ", " + s.Error
	}
	return text
}

// leaseText says who holds the lease, and when the machine of the box will be paused.
func leaseText(b agentbox.Box) string {
	text := b.Lease.Owner
	switch {
	case b.Lease.Holders > 0:
		text += fmt.Sprintf(", %s: paused %s after the last", agentbox.Plural(b.Lease.Holders, "session or connection"), b.Lease.Term)
	case !b.Lease.Expires.IsZero():
		text += ", paused at " + b.Lease.Expires.Local().Format(time.DateTime) + " if nobody uses it"
	}
	return text
}

// showRows returns all facts about a box, a name and a text in each row. A property with several
// values has several rows with the same name.
func showRows(b agentbox.Box) [][]string {
	rows := [][]string{
		{"box", b.Name + " (" + b.ID.String() + ")"},
		{"state", string(b.State)},
		{"isolation", isolationText(b) + ": " + b.Reason},
		{"directory", b.Directory + " on " + b.Branch},
	}
	if !agentbox.KindOf(b.Isolation).Elsewhere {
		rows = append(rows, []string{"image", b.ImageName + " (" + b.Image.Short() + ")"},
			[]string{"machine", fmt.Sprintf("%s, %s memory, %s disk", agentbox.Plural(b.CPUs, "CPU"), bytesText(b.Memory), bytesText(b.Disk))},
			[]string{"lease", leaseText(b)})
	}
	if b.GPUs != 0 {
		rows = append(rows, []string{"gpus", agentbox.GPUsText(b.GPUs)})
	}
	if !b.Cache.IsZero() {
		rows = append(rows, []string{"setup", "made once for key " + b.Cache.Short()})
	}
	if b.Parent != nil {
		rows = append(rows, []string{"parent", b.Parent.String()})
	}
	for _, s := range b.Services {
		rows = append(rows, []string{"service", serviceText(s)})
	}
	for _, p := range b.Ports {
		rows = append(rows, []string{"port", strconv.Itoa(p.Box) + " at " + p.Host})
	}
	for _, c := range b.Checkpoint {
		rows = append(rows, []string{"checkpoint", fmt.Sprintf("%s %s, %s, %s ago", c.ID, c.Name, bytesText(c.Bytes), agoText(c.Created))})
	}
	if u := b.Usage; u != nil {
		rows = append(rows, []string{"usage", fmt.Sprintf("%s memory, %s disk, %s CPU", bytesText(u.PSS), bytesText(u.Disk), time.Duration(u.CPUMillis)*time.Millisecond)})
	}
	// These come last, because they are sentences.
	for _, note := range notes(b) {
		rows = append(rows, []string{"note", note})
	}
	return rows
}
