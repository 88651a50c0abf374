package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// checkCommand is `check`. It exits with 1 if a check did not pass. --json prints an
// api.CheckedWork; --quiet the names of those that did not.
func (a *app) checkCommand() *cli.Command {
	return &cli.Command{
		Name: "check", Category: catInside, Usage: "run this repository's checks over the work of a box or task", ArgsUsage: "[BOX|TASK]",
		Description: "Runs the WebAssembly modules of `checks:` on this machine, outside any box, over a snapshot of the work. A task's own checks run when it ends.",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			done, err := call(ctx, a, api.CheckWork, a.ref(cmd.Args().First()))
			if err != nil {
				return err
			}
			f := facts{value: done, table: [][]string{{"CHECK", "RESULT", "TOOK"}}}
			var text []string
			for _, c := range done.Checks {
				f.table = append(f.table, []string{c.Name, checkText(c), tookText(c.Took)})
				text = append(text, outputLines(c, unbounded)...)
				if !c.Passed() {
					f.ids = append(f.ids, c.Name)
				}
			}
			f.text = strings.Join(text, "\n")
			if err := a.report(f); err != nil || len(f.ids) == 0 {
				return err
			}
			return exit(1)
		},
	}
}

func checkText(c agentbox.CheckResult) string {
	text := "passed"
	if c.Output != "" {
		text = "passed, with output" // as gofmt -l does, whose status says nothing
	}
	if c.Exit != nil && *c.Exit != 0 {
		text = fmt.Sprintf("exit code %d", *c.Exit)
	}
	why := map[agentbox.CheckProblem]string{
		agentbox.CheckUnapproved: "not run, since nobody has approved it: agentbox policy show says what to approve",
		agentbox.CheckUnusable:   "not run, since its module cannot be used",
		agentbox.CheckMemory:     "it was refused more memory: a check has 512 MiB",
		agentbox.CheckTime:       "it did not end in time: a check has 60 seconds of a processor",
		agentbox.CheckRecursion:  "its calls are nested too deeply",
		agentbox.CheckFiles:      "it was refused another open file: a check has 256",
		agentbox.CheckOutside:    "it was refused a path that leads out of the repository",
		agentbox.CheckTrap:       "it crashed",
		agentbox.CheckBroken:     "agentbox could not run it",
	}[c.Problem]
	if c.Detail != "" {
		why += ": " + c.Detail
	}
	switch {
	case why == "":
		return text
	case c.Exit != nil:
		return text + "; " + why
	}
	return why
}

// outputLines are the first lines that a check wrote, and a line about the others.
func outputLines(c agentbox.CheckResult, most int) []string {
	if c.Output == "" {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(c.Output, "\n"), "\n")
	if len(lines) > most {
		lines = append(lines[:most:most], fmt.Sprintf("(and %s)", agentbox.Plural(len(lines)-most, "more line")))
	}
	if c.Omitted > 0 {
		lines = append(lines, fmt.Sprintf("(and %s that were not kept)", bytesText(c.Omitted)))
	}
	return lines
}

// checkRows are the rows of `task show` about the checks of an attempt.
func checkRows(r agentbox.Result) (rows [][]string) {
	for _, c := range r.Checks {
		rows = append(rows, []string{"check " + c.Name, checkText(c)})
		for _, line := range outputLines(c, 10) {
			rows = append(rows, []string{"", line})
		}
	}
	return rows
}
