package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// pull asks the daemon for the work or, if that is another machine's, both daemons.
func (a *app) pull(ctx context.Context, req api.PullRequest) (api.PulledWork, error) {
	if a.host == "" {
		return call(ctx, a, api.Pull, req)
	}
	here, err := a.here.Connect(ctx)
	if err != nil {
		return api.PulledWork{}, err
	}
	defer here.Close()
	there, err := a.daemon(ctx)
	if err != nil {
		return api.PulledWork{}, err
	}
	defer there.Close()
	return api.BringWork(ctx, there, here, req)
}

// pullCommand is `pull`: the work done in a box or task becomes a branch of this checkout; nothing
// else here changes. Only git objects that the daemon has checked are imported, nothing of the
// box's git configuration or hooks. --json prints an api.PulledWork; --quiet the commit.
func (a *app) pullCommand() *cli.Command {
	var req api.PullRequest
	return &cli.Command{
		Name: "pull", Category: catInside, Usage: "get the work of a box or task as a branch of this repository", ArgsUsage: "[BOX|TASK]",
		Description: "The branch has the commits of the box, followed by one commit with all uncommitted changes. Other branches, stashes, work trees and repositories\n" +
			"in which something was done become branches whose names begin with its name and a plus. Your working tree, your index and\n" +
			"your other branches do not change; use git merge to take over the work. If the default branch exists and has other commits,\n" +
			"for example of an earlier box with the same name, it stays as it is, and the work becomes the branch agentbox/BOX-2.",
		Flags: []cli.Flag{&cli.StringFlag{Name: "branch", Aliases: []string{"b"}, Usage: "name the branch `NAME` (default: agentbox/BOX or agentbox/TASK)", Destination: &req.Branch}},
		Action: func(ctx context.Context, cmd *cli.Command) (err error) {
			req.BoxRef = a.ref(cmd.Args().First())
			if req.Into, err = currentDir(); err != nil {
				return err
			}
			p, err := a.pull(ctx, req)
			if err != nil {
				return err
			}
			a.printMissing(p.Missing, p.Notes)
			text := pulledText(p)
			if usual := "agentbox/" + p.Name; req.Branch == "" && p.Branch != usual && p.Branch != "" {
				text = "branch " + usual + " was there already and stays as it is\n" + text
			}
			return a.report(facts{value: p, ids: []string{p.Commit}, text: text})
		},
	}
}

// pulledText says what was imported: the work of the workspace, and what is beside it.
func pulledText(p api.PulledWork) string {
	// For a task, the answer has no box.
	of := "box " + p.Name
	if p.Box == (agentbox.BoxID{}) {
		of = "task " + p.Name
	}
	var lines []string
	if p.Branch != "" {
		lines = append(lines, branchText(p, of))
	}
	for _, o := range p.OtherWork {
		lines = append(lines, fmt.Sprintf("branch %s has %s of %s", o.Branch, o, of))
	}
	return strings.Join(lines, "\n")
}

// branchText says what was imported, and what to do with it, each command ready to be pasted.
func branchText(p api.PulledWork, of string) string {
	what := agentbox.Plural(p.Commits, "commit")
	switch {
	case p.Files > 0 && p.Commits > 0:
		what += " and a last one with " + agentbox.Plural(p.Files, "uncommitted file")
	case p.Files > 0:
		what = "one commit with " + agentbox.Plural(p.Files, "uncommitted file")
	}
	text := fmt.Sprintf("branch %s has the work of %s: %s\nlook at it:  git log -p HEAD..%s\ntake it:     git merge %s", p.Branch, of, what, p.Branch, p.Branch)
	if p.Mixed {
		text += "\nit includes what was uncommitted here when the box was created, because the box changed the same lines"
	}
	if p.Files > 0 {
		text += fmt.Sprintf("\nits last commit as changes of the working tree:  git cherry-pick -n %s", p.Branch)
	}
	return text
}
