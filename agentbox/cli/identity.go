package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/identity"
)

// identityCommand groups the verbs about what makes a box here behave like one elsewhere.
func (a *app) identityCommand() *cli.Command {
	return &cli.Command{
		Name: "identity", Category: catLifecycle, Usage: "say what an environment is, and how two differ",
		Commands: []*cli.Command{a.identityShow(), a.identityDiff(), a.identityCheck(), a.identityStats(), a.identityScript()},
	}
}

// identityShow is `identity show`. --json prints an api.Identity.
func (a *app) identityShow() *cli.Command {
	return &cli.Command{
		Name: "show", Usage: "show what a box or a task's box is made of, down to the digests", ArgsUsage: "[BOX|TASK]",
		Description: "The document is signed by this machine. It takes a snapshot of a box, which goes on.",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return callAndReport(ctx, a, api.ShowIdentity, a.ref(cmd.Args().First()), func(i api.Identity) facts {
				rows := [][]string{{"identity", i.ID.String()}, {"project", i.Project}, {"branch", i.Branch}, {"commit", i.Commit}, {"snapshot", i.Snapshot.String()},
					{"image", i.Image.String()}, {"packages", fmt.Sprint(len(i.Packages))}}
				if s := i.Setup; s != nil {
					rows = append(rows, []string{"setup", s.Key.String() + " made " + s.Result.Short()})
				}
				for _, name := range slices.Sorted(maps.Keys(i.Lockfiles)) {
					rows = append(rows, []string{"lockfile", name + " " + i.Lockfiles[name]})
				}
				rows = append(rows, [][]string{{"isolation", string(i.Isolation) + " on " + i.Arch}, {"kernel", i.Kernel}, {"policy", i.Policy},
					{"variables", strings.Join(i.Environment, " ")}, {"secrets", strings.Join(i.Secrets, " ")}, {"task", i.Task}, {"agent", i.Agent}, {"signed by", i.Peer}}...)
				rows = slices.DeleteFunc(rows, func(r []string) bool { return r[1] == "" })
				return facts{value: i, ids: []string{i.ID.String()}, table: rows}
			})
		},
	}
}

// identityDiff is `identity diff`. --json prints a list of identity.Difference. Like diff(1), it ends
// with status 1 if there are differences.
func (a *app) identityDiff() *cli.Command {
	return &cli.Command{
		Name: "diff", Usage: "say where two environments differ, what matters most first; exits with 1 if they do", ArgsUsage: "BOX|TASK BOX|TASK",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			var sides [2]identity.Side
			for i := range sides {
				got, err := call(ctx, a, api.ShowIdentity, a.ref(cmd.Args().Get(i)))
				if err != nil {
					return err
				}
				sides[i] = identity.Side{Document: got.Document, Packages: got.Packages}
			}
			return a.reportDifferences(identity.Diff(sides[0], sides[1]), cmd.Args().Get(0), cmd.Args().Get(1))
		},
	}
}

// reportDifferences prints differences, and is an exit with 1 if there are any.
func (a *app) reportDifferences(all []identity.Difference, x, y string) error {
	f := listed(all, []string{"WHAT", "NAME", strings.ToUpper(x), strings.ToUpper(y)}, func(d identity.Difference) (string, []string) {
		return d.What, []string{d.What, d.Name, shortened(d.A), shortened(d.B)}
	})
	if len(all) == 0 {
		f.table, f.text = nil, "no difference"
	}
	if err := a.report(f); err != nil || len(all) == 0 {
		return err
	}
	return exit(1)
}

// shortened is a value for a table, whose digests are abbreviated.
func shortened(value string) string {
	if d, err := agentbox.ParseDigest(value); err == nil && value != "" {
		return d.Short()
	}
	if value == "" {
		return "-"
	}
	return value
}

// identityCheck is `identity check`: the report of CI against one of the box, by the same script.
func (a *app) identityCheck() *cli.Command {
	file := ""
	return &cli.Command{
		Name: "check", Usage: "compare a box with what CI reported of itself; exits with 1 if they differ", ArgsUsage: "[BOX|TASK]",
		Description: "FILE is the output of the script that `identity script` prints, as CI ran it. The same script runs in the box; that of a task that\n" +
			"has ended is made again, and removed.",
		Flags: []cli.Flag{&cli.StringFlag{Name: "ci", Usage: "read the report of CI from `FILE`", Destination: &file}},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if file == "" {
				return agentbox.Errorf(agentbox.Invalid, "identity check needs --ci FILE").WithHint("agentbox identity script prints what CI runs to make it")
			}
			report, err := readReport(file)
			if err != nil {
				return err
			}
			name := cmd.Args().First()
			c, made, err := a.context(ctx, api.ContextRef{Name: name})
			if err != nil {
				return err
			}
			req := api.IdentityCheck{BoxRef: api.BoxRef{Box: c.Box.String()}, Report: report}
			if id, err := agentbox.ParseTaskID(name); err == nil {
				req.Task = id.String()
			}
			all, err := call(ctx, a, api.CheckIdentity, req)
			if made { // nothing was done in it
				_, gone := call(ctx, a, api.Remove, req.BoxRef)
				err = errors.Join(err, gone)
			}
			if err != nil {
				return err
			}
			return a.reportDifferences(all, "CI", "box")
		},
	}
}

// readReport reads what CI reported. The daemon says what is wrong with it.
func readReport(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", agentbox.Errorf(agentbox.NotFound, "%w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, identity.MaxReport))
	return strings.ToValidUTF8(string(b), "\ufffd"), err
}

// identityStats is `identity stats`. --json prints an identity.Stats.
func (a *app) identityStats() *cli.Command {
	since := "30d"
	var req api.TaskList
	return &cli.Command{
		Name: "stats", Usage: "say how often CI and box disagreed, and by what, in all that identity check compared",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "since", Value: since, Usage: "only checks of the last `TIME`, such as 30d or 12h", Destination: &since},
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "boxes and tasks of all projects", Destination: &req.All},
		},
		Action: func(ctx context.Context, _ *cli.Command) error {
			span, err := parseSince(since)
			if err != nil {
				return err
			}
			if req.Directory, err = os.Getwd(); err != nil {
				req.All = true
			}
			req.Since = time.Now().Add(-span)
			return callAndReport(ctx, a, api.IdentityStats, req, func(s identity.Stats) facts {
				f := listed(s.By, []string{"WHAT", "NAME", "TIMES"}, func(c identity.Count) (string, []string) {
					return c.What, []string{c.What, c.Name, fmt.Sprintf("%d of %d", c.Times, s.Checks)}
				})
				f.value, f.text = s, fmt.Sprintf("CI and box disagreed in %d of %s, %d of tasks", s.Disagreed, agentbox.Plural(s.Checks, "check"), s.Tasks)
				if s.Disagreed == 0 {
					f.table = nil
				}
				return f
			})
		},
	}
}

// identityScript is `identity script`.
func (a *app) identityScript() *cli.Command {
	return &cli.Command{
		Name: "script", Usage: "print a POSIX script with which CI reports what it is", ArgsUsage: "[LOCKFILE...]",
		Description: "LOCKFILE are the files whose content counts, relative to the checkout. The output of the script is for identity check --ci.",
		Action: func(_ context.Context, cmd *cli.Command) error {
			_, err := fmt.Fprint(a.stdout, identity.Script(cmd.Args().Slice()))
			return err
		},
	}
}
