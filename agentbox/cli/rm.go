package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

func (a *app) rmCommand() *cli.Command {
	var force bool
	return &cli.Command{
		Name: "rm", Category: catBox, Usage: "remove boxes with their workspaces", ArgsUsage: "[BOX...]",
		Description: "A box with work that is nowhere else is removed only after a question, or with --force.",
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "force", Aliases: []string{"f"}, Usage: "ask nothing, and lose unsaved work", Destination: &force}},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			names := cmd.Args().Slice()
			if len(names) == 0 {
				names = []string{""}
			}
			for _, name := range names {
				if err := a.removeBox(ctx, name, force); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func (a *app) removeBox(ctx context.Context, name string, force bool) error {
	ref, err := a.ref(name)
	if err != nil {
		return err
	}
	if !force {
		if err := a.confirmLoss(ctx, ref); err != nil {
			return err
		}
	}
	b, err := call(ctx, a, api.Remove, ref)
	if err != nil {
		return err
	}
	return a.printBox(b, "was removed")
}

// confirmLoss asks whether a box may go that has work which is nowhere else. Where there is nobody to ask, it may not.
func (a *app) confirmLoss(ctx context.Context, ref api.BoxRef) error {
	b, err := call(ctx, a, api.ShowBox, ref) // whether there is such a box is no question of its work
	if err != nil {
		return err
	}
	work, err := call(ctx, a, api.Unsaved, api.BoxRef{Box: b.ID.String()})
	loss := ""
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		loss = "cannot tell whether box " + b.Name + " has unsaved work: " + oneLine(err.Error())
	case work.Commits == 0 && work.Files == 0:
		return nil
	default:
		loss = fmt.Sprintf("box %s has work that is nowhere else: %s", b.Name, workText(work))
	}
	if !term.IsTerminal(int(a.stdin.Fd())) || !term.IsTerminal(int(a.stderr.Fd())) {
		return agentbox.Errorf(agentbox.Conflict, "%s", loss).
			WithHint("git fetch %s brings its commits here; agentbox rm --force %s removes it all the same", b.Name, b.Name)
	}
	fmt.Fprintf(a.stderr, "%s\nremove it? [y/N] ", loss)
	answer, err := bufio.NewReader(a.stdin).ReadString('\n')
	if strings.ToLower(strings.TrimSpace(answer)) == "y" {
		return nil
	}
	if err != nil {
		fmt.Fprintln(a.stderr)
	}
	return agentbox.Errorf(agentbox.Conflict, "box %s was not removed", b.Name)
}

// workText counts what would be lost.
func workText(w api.UnsavedWork) string {
	var parts []string
	if w.Commits > 0 {
		parts = append(parts, agentbox.Plural(w.Commits, "commit"))
	}
	if w.Files > 0 {
		parts = append(parts, agentbox.Plural(w.Files, "changed file"))
	}
	return strings.Join(parts, " and ")
}
