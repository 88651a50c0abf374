package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	root := &cli.Command{Name: "lab", Usage: "measure agentbox's parts against other programs", Commands: verbs(os.Stdout), HideHelpCommand: true}
	if err := root.Run(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		if hint := agentbox.AsError(err).Hint; hint != "" {
			fmt.Fprintln(os.Stderr, "hint:", hint)
		}
		os.Exit(1)
	}
}

// verb returns the command of a benchmark, with the flags that all have. runs is the default number
// of samples. After a failure nothing is printed, because half a comparison misleads.
func verb(name, usage, description string, runs int, out io.Writer, measure func(context.Context, *bench.Run) error) *cli.Command {
	var r bench.Run
	var isolation, file string
	return &cli.Command{
		Name: name, Usage: usage, Description: description,
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "runs", Value: runs, Usage: "take `N` samples of each scenario", Destination: &r.Runs},
			&cli.StringFlag{Name: "isolation", Usage: "only this `KIND` of machine: auto, microvm, gvisor", Destination: &isolation},
			&cli.StringFlag{Name: "json", Usage: "write the report to `FILE`, - for standard output", Destination: &file},
			&cli.StringSliceFlag{Name: "only", Usage: "only scenarios whose name matches `GLOB`, such as 'store/in*'; separate several with commas", Destination: &r.Only},
			&cli.StringFlag{Name: "agentbox", Usage: "the `PROGRAM` to measure", DefaultText: "agentbox in ../bin of this program's directory", Destination: &r.Binary},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			// A scenario's name is not an argument, but people easily forget --only.
			if cmd.Args().Present() {
				return agentbox.Errorf(agentbox.Invalid, "%s takes no argument %q", name, cmd.Args().First()).WithHint("to choose scenarios: --only %s", cmd.Args().First())
			}
			r.Isolation, r.Progress = agentbox.Isolation(isolation), showOn(os.Stderr)
			err := begin(ctx, &r)
			if err == nil {
				err = measure(ctx, &r)
			}
			switch {
			case err != nil && ctx.Err() != nil:
				return errors.New("interrupted")
			case err != nil:
				return err
			}
			if err := r.Report.Print(out, file); err != nil {
				return err
			}
			if n := r.Report.Failures(); n > 0 {
				return agentbox.Errorf(agentbox.Internal, "%s failed", agentbox.Plural(n, "sample"))
			}
			return nil
		},
	}
}

// begin finds the user's home and the program to measure, and starts the report.
func begin(ctx context.Context, r *bench.Run) (err error) {
	if r.Home, err = home.Find(); err != nil {
		return err
	}
	if r.Binary == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		r.Binary = filepath.Join(filepath.Dir(self), "..", "bin", "agentbox")
	}
	if r.Binary, err = filepath.Abs(r.Binary); err != nil {
		return err
	}
	var version struct{ Build string }
	out, err := exec.CommandContext(ctx, r.Binary, "version", "--json").Output()
	if err == nil {
		err = json.Unmarshal(out, &version)
	}
	if err != nil {
		return agentbox.Errorf(agentbox.Missing, "%s is no agentbox to measure: %w", r.Binary, err).WithHint("make build, or --agentbox PROGRAM")
	}
	return r.Begin(ctx, version.Build)
}

// showOn prints notes and finished steps.
func showOn(w io.Writer) agentbox.Progress {
	return func(e agentbox.Event) {
		switch {
		case e.Note:
			fmt.Fprintln(w, strings.TrimSpace(e.Detail))
		case e.Ended:
			fmt.Fprintf(w, "- %-10s %8s  %s\n", e.Step, e.Took.Round(time.Millisecond), e.Detail)
		}
	}
}
