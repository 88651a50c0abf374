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
	live := false
	return &cli.Command{
		Name: "push", Category: catInside, Usage: "hand what was done in an entered box back to where it was entered", ArgsUsage: "[BOX]",
		Description: "The box there goes on from it: commits, index and files are put in place while everything in it stands still. If it has changed since it\n" +
			"was entered, it stays as it is, and git merge there takes the work. Its owner allows that with agentbox task share --push.",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "live", Usage: "move what runs in a box of enter --live, too: it goes on there, and ends here", Destination: &live}},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			p, err := a.push(ctx, api.PushRequest{BoxRef: a.ref(cmd.Args().First()), Live: live})
			if err != nil {
				return err
			}
			return a.report(facts{value: p, ids: []string{p.Snapshot.String()}, text: pushedText(p)})
		},
	}
}

// push hands work back, by its snapshot if what runs cannot go on there.
func (a *app) push(ctx context.Context, req api.PushRequest) (api.PushedContext, error) {
	p, err := call(ctx, a, api.PushContext, req)
	if !req.Live || agentbox.CodeOf(err) != agentbox.Conflict {
		return p, err
	}
	if !a.quiet {
		fmt.Fprintf(a.stderr, "what runs stays here (%s), so the work goes back by its snapshot\n", oneLine(agentbox.AsError(err).Message))
	}
	req.Live = false
	return call(ctx, a, api.PushContext, req)
}

// pushedText says what became of work that was handed back, and what to do with it there.
func pushedText(p api.PushedContext) string {
	if p.Live {
		return fmt.Sprintf("what ran in %s goes on in %s of %s, with its memory, %s; here nothing of it runs any more\nits old files: agentbox rm --force %[1]s", p.Of, oneLine(p.Name), p.Machine, tookText(p.Took))
	}
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
