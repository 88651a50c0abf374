package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// rmCommand is `rm`. Without a box it is the one of this directory. --force skips the question and
// also the waking of the box, which finding out what would be lost needs.
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
			return a.removeBoxes(ctx, names, force)
		},
	}
}

// removeBoxes asks about every box that has work which is nowhere else. Where there is nobody to
// ask, one of them keeps all. All are looked at before the first is removed, so that a wrong name
// leaves every box as it is.
func (a *app) removeBoxes(ctx context.Context, names []string, force bool) error {
	var boxes []removal
	for _, name := range names {
		d, err := a.removalOf(ctx, name, force)
		if err != nil {
			return err
		}
		boxes = append(boxes, d)
	}
	// Nobody can be asked: all losses at once are the error, so that a script removes everything or
	// nothing.
	if !term.IsTerminal(int(a.stdin.Fd())) || !term.IsTerminal(int(a.stderr.Fd())) {
		if err := losses(boxes); err != nil {
			return err
		}
	}
	for _, d := range boxes {
		if err := a.removeBox(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// removal is a box that is to be removed, as far as that was looked into. With --force nothing was,
// and name and loss are "".
type removal struct {
	ref  api.BoxRef
	name string
	loss string // what a person has to agree to, "" for nothing
}

// removalOf finds out what would be lost with a box, unless that does not matter. A box that cannot
// tell, because it cannot be woken for example, counts as one with something to lose.
func (a *app) removalOf(ctx context.Context, name string, force bool) (removal, error) {
	d := removal{ref: a.ref(name)}
	if force {
		return d, nil
	}
	// Whether there is such a box is no question of its work.
	b, err := call(ctx, a, api.ShowBox, d.ref)
	if err != nil {
		return d, err
	}
	d.name = b.Name
	work, err := call(ctx, a, api.Unsaved, api.BoxRef{Box: b.ID.String()})
	switch {
	// An interrupt is no answer about the work.
	case err != nil && ctx.Err() != nil:
		return d, err
	case err != nil:
		d.loss = "cannot tell whether box " + b.Name + " has unsaved work: " + oneLine(err.Error())
	case work.Commits > 0 || work.Files > 0:
		d.loss = fmt.Sprintf("box %s has work that is nowhere else: %s", b.Name, workText(work))
	}
	return d, nil
}

// losses is an error that tells everything that would be lost, nil for nothing. It is Conflict.
func losses(boxes []removal) error {
	var all, texts, losers []string
	for _, d := range boxes {
		all = append(all, d.name)
		if d.loss != "" {
			texts, losers = append(texts, d.loss), append(losers, d.name)
		}
	}
	if len(texts) == 0 {
		return nil
	}
	// The hint is a command to paste: of one box its name, of several a word for each.
	box, it := losers[0], "it"
	if len(losers) > 1 {
		box = "BOX"
	}
	if len(all) > 1 {
		it = "them"
	}
	return agentbox.Errorf(agentbox.Conflict, "%s", strings.Join(texts, "; ")).
		WithHint("agentbox pull %s brings all of it here as a branch; agentbox rm --force %s removes %s all the same", box, strings.Join(all, " "), it)
}

// removeBox removes one box, after a question if something would be lost with it.
func (a *app) removeBox(ctx context.Context, d removal) error {
	if d.loss != "" {
		if err := a.confirm(d); err != nil {
			return err
		}
	}
	return tell(ctx, a, api.Remove, d.ref, boxFacts("was removed"))
}

// confirm asks at the terminal whether a box may go.
func (a *app) confirm(d removal) error {
	fmt.Fprintln(a.stderr, d.loss)
	if a.yes("remove it?") {
		return nil
	}
	return agentbox.Errorf(agentbox.Conflict, "box %s was not removed", d.name)
}

// workText counts what would be lost, and names some of it.
func workText(w api.UnsavedWork) string {
	var parts []string
	if w.Commits > 0 {
		parts = append(parts, agentbox.Plural(w.Commits, "commit")+named(w.Titles, w.Commits))
	}
	if w.Files > 0 {
		parts = append(parts, agentbox.Plural(w.Files, "changed file")+named(w.Paths, w.Files))
	}
	return strings.Join(parts, " and ")
}

// named is the first of what a box calls its work, for a line at a terminal. Titles and file names
// are a box's words: they are cleaned, and cut so that three fit a line.
func named(names []string, all int) string {
	// Three are enough to recognise one's own work.
	const most, width = 3, 50
	var shown []string
	for _, name := range names[:min(len(names), most)] {
		shown = append(shown, cut(agentbox.Printable(name), width))
	}
	if len(shown) == 0 {
		return ""
	}
	if all > len(shown) {
		shown = append(shown, "\u2026")
	}
	return " (" + strings.Join(shown, ", ") + ")"
}
