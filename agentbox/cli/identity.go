package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/identity"
)

// identityCommand groups the verbs about what makes a box here behave like one elsewhere.
func (a *app) identityCommand() *cli.Command {
	return &cli.Command{
		Name: "identity", Category: catLifecycle, Usage: "say what an environment is, and how two differ",
		Commands: []*cli.Command{a.identityShow(), a.identityDiff(), a.identityCheck(), a.identityScript()},
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
		Name: "check", Usage: "compare a box with what CI reported of itself; exits with 1 if they differ", ArgsUsage: "[BOX]",
		Description: "FILE is the output of the script that `identity script` prints, as CI ran it. The same script runs in the box.",
		Flags:       []cli.Flag{&cli.StringFlag{Name: "ci", Usage: "read the report of CI from `FILE`", Destination: &file}},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if file == "" {
				return agentbox.Errorf(agentbox.Invalid, "identity check needs --ci FILE").WithHint("agentbox identity script prints what CI runs to make it")
			}
			f, err := os.Open(file)
			if err != nil {
				return agentbox.Errorf(agentbox.NotFound, "%w", err)
			}
			defer f.Close()
			ci, err := identity.ParseReport(f)
			if err != nil {
				return err
			}
			ref := a.ref(cmd.Args().First())
			ran, err := call(ctx, a, api.RunInBox, api.RunRequest{BoxRef: ref, Script: identity.Script(ci.Lockfiles()), Seconds: 120})
			if err != nil {
				return err
			}
			here, err := identity.ParseReport(strings.NewReader(ran.Stdout))
			if err != nil {
				return err
			}
			return a.reportDifferences(ci.Diff(here), "CI", "box")
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
