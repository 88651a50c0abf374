package cli

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

func (a *app) snapshotCommand() *cli.Command {
	return &cli.Command{
		Name: "snapshot", Category: catLifecycle, Usage: "keep the state of a workspace, small and apart from its box",
		Commands: []*cli.Command{a.snapshotCreate(), a.snapshotLs(), a.snapshotShow(), a.snapshotDiff(), a.snapshotRestore(), a.snapshotRm()},
	}
}

// snapshotCreate is `snapshot create`. --json prints an api.Snapshot.
func (a *app) snapshotCreate() *cli.Command {
	return &cli.Command{
		Name: "create", Usage: "take a snapshot of a box's workspace", ArgsUsage: "[BOX]",
		Description: "It has the commits, the index, all uncommitted files with modes and times, the ignored files that artifacts: names, an interrupted\n" +
			"merge or rebase, and the repositories in the workspace. The box goes on. A workspace with the value of a secret is refused.",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return callAndReport(ctx, a, api.CreateSnapshot, a.ref(cmd.Args().First()), func(s api.Snapshot) facts {
				a.printMissing(s.Missing, nil)
				text := fmt.Sprintf("snapshot %s of %s: %s, %s, %s", s.ID.Short(), s.Of, agentbox.Plural(s.Commits, "commit"), agentbox.Plural(s.Files, "uncommitted file"), bytesText(s.Bytes))
				if s.Known {
					text += ", as before"
				}
				return facts{value: s, ids: []string{s.ID.String()}, text: text}
			})
		},
	}
}

// snapshotLs is `snapshot ls`. --json prints a list of api.Snapshot.
func (a *app) snapshotLs() *cli.Command {
	var req api.TaskList
	return &cli.Command{
		Name: "ls", Usage: "list the snapshots of this project",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "also list those of other projects", Destination: &req.All}},
		Action: func(ctx context.Context, _ *cli.Command) (err error) {
			if req.Directory, err = currentDir(); err != nil {
				return err
			}
			return callAndReport(ctx, a, api.ListSnapshots, req, func(list []api.Snapshot) facts {
				return listed(list, []string{"SNAPSHOT", "OF", "BRANCH", "COMMITS", "FILES", "SIZE", "CREATED"}, func(s api.Snapshot) (string, []string) {
					return s.ID.String(), []string{s.ID.Short(), s.Of, s.Branch, fmt.Sprint(s.Commits), fmt.Sprint(s.Files), bytesText(s.Bytes), agoText(s.Created)}
				})
			})
		},
	}
}

// snapshotShow is `snapshot show`. --json prints an api.SnapshotDetail.
func (a *app) snapshotShow() *cli.Command {
	return &cli.Command{
		Name: "show", Usage: "show what a snapshot has", ArgsUsage: "SNAPSHOT",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return callAndReport(ctx, a, api.ShowSnapshot, api.SnapshotRef{Snapshot: cmd.Args().First()}, func(s api.SnapshotDetail) facts {
				rows := [][]string{{"snapshot", s.ID.String()}, {"of", s.Of}, {"project", s.Project}, {"branch", s.Branch}, {"began at", s.Base}, {"head", s.Head}, {"size", bytesText(s.Bytes)}}
				for _, o := range s.OtherWork {
					rows = append(rows, []string{"beside", o.String()})
				}
				for _, c := range s.Changes {
					rows = append(rows, []string{c.Status, c.Path})
				}
				return facts{value: s, ids: []string{s.ID.String()}, table: rows}
			})
		},
	}
}

// snapshotDiff is `snapshot diff`, with the output of diff.
func (a *app) snapshotDiff() *cli.Command {
	var req api.SnapshotDiff
	return &cli.Command{
		Name: "diff", Usage: "show what changed up to a snapshot: since its box began, or since an EARLIER one", ArgsUsage: "SNAPSHOT [EARLIER]",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "stat", Usage: "print one line for each file instead of its changes", Destination: &req.Stat}},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			req.Snapshot, req.From = cmd.Args().First(), cmd.Args().Get(1)
			var terminal bool
			req.Width, req.Color, terminal = a.diffForm()
			d, err := call(ctx, a, api.DiffSnapshot, req)
			if err != nil {
				return err
			}
			return a.printDiff(d, terminal)
		},
	}
}

// snapshotRestore is `snapshot restore`: up in a box that is made from a snapshot.
func (a *app) snapshotRestore() *cli.Command {
	var req api.UpRequest
	var r run
	var detach bool
	return &cli.Command{
		Name: "restore", Usage: "make a box from a snapshot, in any directory", ArgsUsage: "SNAPSHOT [-- CMD...]",
		Flags: append(append(machineFlags(&req), r.flags()...), &cli.StringFlag{Name: "name", Usage: "name the box `NAME`", Destination: &req.Name},
			&cli.BoolFlag{Name: "detach", Aliases: []string{"d"}, Usage: "create the box, but run nothing in it", Destination: &detach}),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if cmd.Args().Len() != 1 {
				return agentbox.Errorf(agentbox.Invalid, "restore takes one snapshot").WithHint("agentbox snapshot ls lists them; a command follows after --")
			}
			dir, err := currentDir()
			if err != nil {
				return err
			}
			made, err := call(ctx, a, api.SourceOfSnapshot, api.SnapshotSource{SnapshotRef: api.SnapshotRef{Snapshot: cmd.Args().First()}, Directory: dir})
			if err != nil {
				return err
			}
			req.Source = &made.Source
			resp, err := a.up(ctx, req)
			if err != nil {
				return err
			}
			return a.afterUp(ctx, resp, r, detach)
		},
	}
}

// snapshotRm is `snapshot rm`.
func (a *app) snapshotRm() *cli.Command {
	return &cli.Command{
		Name: "rm", Usage: "remove snapshots", ArgsUsage: "SNAPSHOT...",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			var all []api.Snapshot
			for _, id := range cmd.Args().Slice() {
				s, err := call(ctx, a, api.RemoveSnapshot, api.SnapshotRef{Snapshot: id})
				if err != nil {
					return err
				}
				all = append(all, s)
			}
			return a.report(listed(all, []string{"REMOVED"}, func(s api.Snapshot) (string, []string) { return s.ID.String(), []string{s.ID.Short()} }))
		},
	}
}
