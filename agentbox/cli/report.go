package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"agentbox/agentbox"
)

// facts is the result of a verb, in every form that the user may ask for. A verb fills it once and
// needs no knowledge of --json and --quiet.
type facts struct {
	// value is what --json prints, unchanged. Scripts rely on its fields.
	value any
	// ids is what --quiet prints, one per line: the arguments for the next command.
	ids   []string
	text  string     // otherwise: some lines, after the table if there is one
	table [][]string // otherwise; the first row is the header
}

// listed returns the facts about a list: an ID and a row below head for each element.
func listed[T any](list []T, head []string, one func(T) (id string, row []string)) facts {
	f := facts{value: append([]T{}, list...), table: [][]string{head}}
	for _, item := range list {
		id, row := one(item)
		f.ids, f.table = append(f.ids, id), append(f.table, row)
	}
	return f
}

// report prints facts in the form that the user asked for. --json takes precedence over --quiet.
// Without either it prints the table, if there is one, and then the text; in both, it replaces what
// a terminal would act on.
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
	for line := range strings.SplitSeq(f.text, "\n") { // this may contain foreign words too
		if _, err := fmt.Fprintln(a.stdout, agentbox.Printable(line)); err != nil {
			return err
		}
	}
	return nil
}

// printJSON prints a value for programs, indented and without HTML escapes, as people read it, too.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// table prints rows in columns. Cells may contain a box's words. Empty cells at the end of a row
// leave no trailing spaces.
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

// boxFacts returns the facts about a box after an action: the ID for --quiet, the whole box for
// --json, else a line. what describes the action, such as "was reset".
func boxFacts(what string) func(agentbox.Box) facts {
	return func(b agentbox.Box) facts {
		return facts{value: b, ids: []string{b.ID.String()}, text: fmt.Sprintf("%s %s (%s)", b.Name, what, b.ID)}
	}
}

// askYesNo asks a person on standard error and reads the answer from standard input. Anything but y
// and yes means no, including an interrupt and the end of input.
func (a *app) askYesNo(question string) bool {
	fmt.Fprint(a.stderr, question+" [y/N] ")
	// Read a whole line, so that what follows the y does not answer the next question.
	answer, err := bufio.NewReader(a.stdin).ReadString('\n')
	if err != nil {
		fmt.Fprintln(a.stderr)
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

// oneLine puts a message on one line and removes what a terminal would act on, because the message
// may quote a box. Lines are joined by "; ", so no word is lost.
func oneLine(s string) string {
	return agentbox.Printable(strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; "))
}

// bytesText returns a size in binary units, rounded down, with a decimal only from GiB up.
func bytesText(n int64) string {
	const unit = 1024
	switch {
	case n < unit:
		return fmt.Sprintf("%d B", n)
	case n < unit*unit:
		return fmt.Sprintf("%d KiB", n/unit)
	case n < unit*unit*unit:
		return fmt.Sprintf("%d MiB", n/unit/unit)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/unit/unit/unit)
}

// tookText returns a duration that people can compare at a glance.
func tookText(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	if d < time.Minute {
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

func agoText(t time.Time) string {
	switch d := time.Since(t); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", max(d.Seconds(), 0))
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0f h", d.Hours())
	default:
		return fmt.Sprintf("%.0f days", d.Hours()/24)
	}
}
