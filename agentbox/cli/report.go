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

// boxFacts are those of a box after something happened to it: its id under --quiet, all of it under
// --json, else a line. what is what happened to it, as "was reset".
func boxFacts(what string) func(agentbox.Box) facts {
	return func(b agentbox.Box) facts {
		return facts{value: b, ids: []string{b.ID.String()}, text: fmt.Sprintf("%s %s (%s)", b.Name, what, b.ID)}
	}
}

// yes asks a person. Anything but yes is no, an interrupt and the end of input too.
func (a *app) yes(question string) bool {
	fmt.Fprint(a.stderr, question+" [y/N] ")
	// A line, so that what is typed after the y is not the next question's answer.
	answer, err := bufio.NewReader(a.stdin).ReadString('\n')
	if err != nil {
		fmt.Fprintln(a.stderr)
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

// oneLine keeps a message on its line, and from saying anything to the terminal, whatever it
// quotes: that may be a box's words. Lines are joined by "; ", so no word of a message is lost.
func oneLine(s string) string {
	return agentbox.Printable(strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; "))
}

// bytesText is a size as people compare it: in binary units, rounded down, with a decimal only from
// GiB on.
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

// tookText is a time a person compares at a glance.
func tookText(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	if d < time.Minute {
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// agoText is how long ago t was, in one unit.
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
