package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// diffCommand is `diff`. Git in the daemon makes the text, and colours it if standard output is a
// terminal. Otherwise the output is a patch, exactly the bytes that git wrote, so it is not
// sanitized.
func (a *app) diffCommand() *cli.Command {
	var req api.DiffRequest
	return &cli.Command{
		Name: "diff", Category: catInside, Usage: "show what changed in a box or task since its start", ArgsUsage: "[BOX|TASK]",
		Description: "Compares the committed, uncommitted and untracked work in the box with the commit and the uncommitted changes that it started with.\n" +
			"If standard output is not a terminal, the output is a patch for git apply.",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "stat", Usage: "print one line for each file instead of its changes", Destination: &req.Stat}},
		Action: func(ctx context.Context, cmd *cli.Command) (err error) {
			req.BoxRef = a.ref(cmd.Args().First())
			var terminal bool
			req.Width, req.Color, terminal = a.diffForm()
			d, err := call(ctx, a, api.Diff, req)
			if err != nil {
				return err
			}
			return a.printDiff(d, terminal)
		},
	}
}

// diffForm is how a diff is asked for: its width, 0 for any, and whether in color. In JSON the text
// is a field, so it is not for a terminal.
func (a *app) diffForm() (width int, color, terminal bool) {
	fd, terminal := a.outTerminal()
	if terminal = terminal && !a.json; terminal {
		width, _, _ = term.GetSize(fd)
	}
	return width, terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb", terminal
}

// printDiff prints a diff. It first lists on standard error what the diff omits. A truncated text
// is an error (NoSpace), because half a patch applies as cleanly as a whole one. --json prints an
// api.WorkDiff, with the text in base64, like all bytes in JSON; --quiet the commit in the mirror.
func (a *app) printDiff(d api.WorkDiff, terminal bool) (err error) {
	if !a.json {
		missing := d.Missing
		for _, o := range d.OtherWork {
			missing = append(missing, o.String()+"; agentbox pull gets it as a branch")
		}
		a.printMissing(missing, d.Notes)
	}
	switch {
	case a.json:
		err = a.printJSON(d)
	case a.quiet:
		return a.report(facts{ids: []string{d.Commit}})
	case terminal:
		_, err = a.stdout.Write(sanitize(d.Text))
	default:
		_, err = a.stdout.Write(d.Text)
	}
	if err != nil {
		return err
	}
	if d.Truncated {
		return agentbox.Errorf(agentbox.NoSpace, "the difference is too long to show all of it").WithHint("agentbox diff --stat shows the files; agentbox pull gets all of it as a branch")
	}
	return nil
}

// printMissing reports on standard error what part of a box's work is not shown, and what is shown in
// another form. With --quiet it prints nothing.
func (a *app) printMissing(missing, notes []string) {
	if a.quiet {
		return
	}
	for _, m := range missing {
		fmt.Fprintf(a.stderr, "not included: %s\n", oneLine(m))
	}
	for _, n := range notes {
		fmt.Fprintln(a.stderr, oneLine(n))
	}
}

// allowed matches what sanitize keeps besides printable text: newlines, tabs and colours.
var allowed = agentbox.Pattern("\n|\t|\x1b\\[[0-9;]{0,29}m")

// sanitize removes from a box's text everything that a terminal would act on, except colours.
// Colours come from git, but a box may write such a sequence too: it changes the appearance and
// nothing else.
func sanitize(text []byte) []byte {
	var out bytes.Buffer
	from := 0
	for _, at := range allowed().FindAllIndex(text, -1) {
		out.WriteString(agentbox.Printable(string(text[from:at[0]])))
		out.Write(text[at[0]:at[1]])
		from = at[1]
	}
	out.WriteString(agentbox.Printable(string(text[from:])))
	return out.Bytes()
}
