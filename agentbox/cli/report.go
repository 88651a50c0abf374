package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"agentbox/agentbox"
)

// facts are what a verb has found out, in every form in which it may be asked for. A verb fills it
// once and knows nothing of --json and --quiet.
type facts struct {
	// value is what --json prints, as it is: its fields are what scripts rely on.
	value any
	// ids are what --quiet prints, a line each: what the next command takes as its argument.
	ids   []string
	text  string     // otherwise, some lines, behind the table if there is one
	table [][]string // otherwise; the first row is the head
}

// listed are the facts of a list: an id and a row below head for each.
func listed[T any](list []T, head []string, one func(T) (id string, row []string)) facts {
	f := facts{value: append([]T{}, list...), table: [][]string{head}}
	for _, item := range list {
		id, row := one(item)
		f.ids, f.table = append(f.ids, id), append(f.table, row)
	}
	return f
}

// report prints facts in the form that was asked for. --json wins over --quiet. For people it is
// the table, if there is one, and then the text; in both, what a terminal would act on is replaced.
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

// printJSON prints a fact for programs. Indented, and without escapes for HTML: people read it too.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// table prints rows in columns. Cells may have a box's words. An empty cell at the end of a row
// leaves no spaces there.
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
