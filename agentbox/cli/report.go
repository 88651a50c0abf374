package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"agentbox/agentbox"
)

// facts are what a verb has found out, in the forms that programs and people read.
type facts struct {
	value any        // under --json
	ids   []string   // under --quiet, a line each
	text  string     // otherwise, some lines, behind the table if there is one
	table [][]string // otherwise; the first row is the head
}

// report prints facts in the form that was asked for. --json wins over --quiet.
func (a *app) report(f facts) error {
	switch {
	case a.json:
		return a.printJSON(f.value)
	case a.quiet:
		for _, id := range f.ids {
			if _, err := fmt.Fprintln(a.stdout, id); err != nil {
				return err
			}
		}
		return nil
	}
	if err := a.table(f.table); err != nil || f.text == "" {
		return err
	}
	for line := range strings.SplitSeq(f.text, "\n") { // which may have foreign words, too
		if _, err := fmt.Fprintln(a.stdout, agentbox.Printable(line)); err != nil {
			return err
		}
	}
	return nil
}

// printJSON prints a fact for programs.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// table prints rows in columns. Cells may have a box's words.
func (a *app) table(rows [][]string) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = oneLine(cell)
		}
		fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
	return w.Flush()
}
