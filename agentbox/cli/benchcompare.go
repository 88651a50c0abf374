package cli

import (
	"context"

	"github.com/urfave/cli/v3"

	"agentbox/bench"
)

// benchCompare is `bench compare`.
func (a *app) benchCompare() *cli.Command {
	tolerance := 5.0
	return &cli.Command{
		Name: "compare", Usage: "say what got slower between two reports; exit with 1 if anything did", ArgsUsage: "OLD NEW",
		Description: "A scenario got slower if the samples differ by the Mann-Whitney U-test at 5%, and the medians by more than the tolerance.\nOLD and NEW are files that bench --json wrote, on the same machine.",
		Flags: []cli.Flag{
			&cli.FloatFlag{Name: "tolerance", Value: tolerance, Usage: "ignore changes of the median up to `PERCENT`", Destination: &tolerance},
		},
		Action: func(_ context.Context, cmd *cli.Command) error {
			older, err := bench.ReadReportFile(cmd.Args().Get(0))
			if err != nil {
				return err
			}
			newer, err := bench.ReadReportFile(cmd.Args().Get(1))
			if err != nil {
				return err
			}
			changes := bench.Compare(older, newer, tolerance/100)
			if a.json {
				err = a.printJSON(changes)
			} else {
				err = bench.WriteChanges(a.stdout, changes)
			}
			for _, c := range changes {
				if err == nil && c.Outcome == bench.Slower {
					return exit(1)
				}
			}
			return err
		},
	}
}

// benchHistory is `bench history`.
func (a *app) benchHistory() *cli.Command {
	return &cli.Command{
		Name: "history", Usage: "draw how the medians went in a file of bench --history", ArgsUsage: "FILE",
		Description: "The last column compares the last run with the one before, as bench compare does.",
		Action: func(_ context.Context, cmd *cli.Command) error {
			all, err := bench.ReadHistoryFile(cmd.Args().First())
			if err != nil {
				return err
			}
			courses := bench.Courses(all, 0.05)
			if a.json {
				return a.printJSON(courses)
			}
			return bench.WriteHistory(a.stdout, courses)
		},
	}
}
