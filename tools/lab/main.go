package main

import (
	"context"
	"encoding/json"
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

// verb returns the command of a benchmark, which measures the agentbox of a flag. runs is the
// default number of samples.
func verb(name, usage, description string, runs int, out io.Writer, measure func(context.Context, *bench.Run) error) *cli.Command {
	var binary string
	cmd := bench.Verb{Name: name, Usage: usage, Description: description, Runs: runs, Measure: measure}.Command(bench.Frame{
		Out: out,
		Begin: func(ctx context.Context, r *bench.Run) (func(), error) {
			r.Binary, r.Progress = binary, showOn(os.Stderr)
			return func() {}, begin(ctx, r)
		},
	})
	cmd.Flags = append(cmd.Flags,
		&cli.StringFlag{Name: "agentbox", Usage: "the `PROGRAM` to measure", DefaultText: "agentbox in ../bin of this program's directory", Destination: &binary})
	return cmd
}

// begin finds the program to measure, and starts the report.
func begin(ctx context.Context, r *bench.Run) (err error) {
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
