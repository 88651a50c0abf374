package cli

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// pushCommand is `push`. --json prints an api.PushedContext.
func (a *app) pushCommand() *cli.Command {
	return &cli.Command{
		Name: "push", Category: catInside, Usage: "hand what was done in an entered box back to where it was entered", ArgsUsage: "[BOX]",
		Description: "The box there goes on from it: commits, index and files are put in place while everything in it stands still. If it has changed since it\n" +
			"was entered, it stays as it is, and git merge there takes the work. Its owner allows that with agentbox task share --push.",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return callAndReport(ctx, a, api.PushContext, a.ref(cmd.Args().First()), func(p api.PushedContext) facts {
				return facts{value: p, ids: []string{p.Snapshot.String()}, text: pushedText(p)}
			})
		},
	}
}

// pushedText says what became of work that was handed back, and what to do with it there.
func pushedText(p api.PushedContext) string {
	work := agentbox.Plural(p.Commits, "commit") + ", " + agentbox.Plural(p.Files, "uncommitted file")
	if p.Ref == "" {
		return fmt.Sprintf("%s of %s goes on from it: %s, %s", oneLine(p.Name), p.Machine, work, tookText(p.Took))
	}
	why := "has changed since it was entered"
	switch {
	case p.Why != "":
		why = "stays as it is: " + oneLine(p.Why)
	case p.Box == "":
		why = "has no box any more"
	}
	text := fmt.Sprintf("%s of %s %s; %s, are kept there as %s\n", oneLine(p.Name), p.Machine, why, work, oneLine(p.Ref))
	if p.Box == "" {
		return text + "a box of it: agentbox snapshot restore " + p.Snapshot.Short()
	}
	return text + fmt.Sprintf("take it:     agentbox exec %s -- git merge %s", oneLine(p.Box), oneLine(p.Ref))
}
