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

// rmCommand is `rm`. Without an argument it means the box of this directory. --force skips the
// question, and also waking the box, which is needed to find out what would be lost.
func (a *app) rmCommand() *cli.Command {
	var force, forget bool
	return &cli.Command{
		Name: "rm", Category: catBox, Usage: "remove boxes with their workspaces", ArgsUsage: "[BOX...]",
		Description: "If a box has work that exists nowhere else, this command asks before it removes the box.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "force", Aliases: []string{"f"}, Usage: "do not ask; unsaved work is lost", Destination: &force},
			&cli.BoolFlag{Name: "forget", Usage: "for a box on a machine that is gone: ask nothing there, and leave what is there", Destination: &forget},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			names := cmd.Args().Slice()
			if len(names) == 0 {
				names = []string{""}
			}
			if !forget {
				return a.removeBoxes(ctx, names, force)
			}
			for _, name := range names {
				if err := callAndReport(ctx, a, api.Forget, a.ref(name), boxFacts("was forgotten; what is on its machine stays there")); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// removeBoxes asks about every box with work that exists nowhere else. If nobody can be asked, one
// such box keeps all. It looks at all boxes before it removes the first, so that a wrong name
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
	// Nobody can be asked. The error lists all losses, so that a script removes everything or
	// nothing.
	if !term.IsTerminal(int(a.stdin.Fd())) || !term.IsTerminal(int(a.stderr.Fd())) {
		if err := unsavedError(boxes); err != nil {
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

// removal is a box to be removed, and what is known about it. With --force nothing was looked up,
// so name and loss are "".
type removal struct {
	ref  api.BoxRef
	name string
	loss string // what the user must agree to lose; "" for nothing
}

// removalOf finds out what would be lost with a box, unless force is set. A box that cannot tell,
// for example because it cannot be woken, counts as having something to lose.
func (a *app) removalOf(ctx context.Context, name string, force bool) (removal, error) {
	d := removal{ref: a.ref(name)}
	if force {
		return d, nil
	}
	// First check that the box exists, which is independent of its work.
	b, err := call(ctx, a, api.ShowBox, d.ref)
	if err != nil {
		return d, err
	}
	d.name = b.Name
	work, err := call(ctx, a, api.Unsaved, api.BoxRef{Box: b.ID.String()})
	switch {
	// An interrupt says nothing about the work.
	case err != nil && ctx.Err() != nil:
		return d, err
	case err != nil:
		d.loss = "cannot tell whether box " + b.Name + " has unsaved work: " + oneLine(err.Error())
	default:
		d.loss = lossText(b.Name, work)
	}
	return d, nil
}

// lossText says what would be lost with a box, and what could not be looked at; "" for nothing.
func lossText(name string, work api.UnsavedWork) string {
	var texts []string
	if work.Commits > 0 || work.Files > 0 {
		texts = append(texts, fmt.Sprintf("box %s has work that exists nowhere else: %s", name, workText(work)))
	}
	if len(work.Missing) > 0 {
		texts = append(texts, fmt.Sprintf("cannot tell all that box %s has: %s", name, oneLine(strings.Join(work.Missing, "; "))))
	}
	return strings.Join(texts, "; ")
}

// unsavedError returns a Conflict that lists everything that would be lost, nil for nothing.
func unsavedError(boxes []removal) error {
	var all, texts, unsaved []string
	for _, d := range boxes {
		all = append(all, d.name)
		if d.loss != "" {
			texts, unsaved = append(texts, d.loss), append(unsaved, d.name)
		}
	}
	if len(texts) == 0 {
		return nil
	}
	// The hint is a command to paste.
	box, it := unsaved[0], "it"
	if len(unsaved) > 1 {
		box = "BOX"
	}
	if len(all) > 1 {
		it = "them"
	}
	return agentbox.Errorf(agentbox.Conflict, "%s", strings.Join(texts, "; ")).
		WithHint("agentbox pull %s gets it as branches; agentbox rm --force %s removes %s anyway", box, strings.Join(all, " "), it)
}

// removeBox removes one box. It asks first if something would be lost.
func (a *app) removeBox(ctx context.Context, d removal) error {
	if d.loss != "" {
		if err := a.confirm(d); err != nil {
			return err
		}
	}
	return callAndReport(ctx, a, api.Remove, d.ref, boxFacts("was removed"))
}

// confirm asks at the terminal whether a box may be removed.
func (a *app) confirm(d removal) error {
	fmt.Fprintln(a.stderr, d.loss)
	if a.askYesNo("remove it?") {
		return nil
	}
	return agentbox.Errorf(agentbox.Conflict, "box %s was not removed", d.name)
}

// workText counts what would be lost, and names some of it.
func workText(w api.UnsavedWork) string {
	var parts []string
	if w.Commits > 0 {
		parts = append(parts, agentbox.Plural(w.Commits, "commit")+listNames(w.Titles, w.Commits))
	}
	if w.Files > 0 {
		parts = append(parts, agentbox.Plural(w.Files, "changed file")+listNames(w.Paths, w.Files))
	}
	return strings.Join(parts, " and ")
}

// listNames returns the first few titles or file names, for one line on a terminal. A box chose
// them, so they are sanitized, and cut so that three fit.
func listNames(names []string, all int) string {
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
