package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
)

// A history is a file of reports, one to a line, oldest first, in the format that --json writes, but
// without what happened on the machine meanwhile.

// ReadHistory reads a history. A line that is no report is an error.
func ReadHistory(in io.Reader) (all []Report, err error) {
	lines := bufio.NewScanner(io.LimitReader(in, maxReport))
	lines.Buffer(nil, maxReport)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		r, err := ReadReport(bytes.NewReader(lines.Bytes()))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		all = append(all, r)
	}
	return all, lines.Err()
}

// ReadHistoryFile is ReadHistory of a file.
func ReadHistoryFile(name string) ([]Report, error) {
	f, err := os.Open(name)
	if err == nil {
		defer f.Close()
		var all []Report
		if all, err = ReadHistory(f); err == nil {
			return all, nil
		}
	}
	return nil, agentbox.Errorf(agentbox.Invalid, "%s is no history of a benchmark: %w", name, err).WithHint("agentbox bench --history FILE writes one")
}

// AddToHistory adds the report to the end of a file, which need not exist, and returns all. The file is
// replaced as a whole; two programs must not add to it at once.
func (r Report) AddToHistory(name string) ([]Report, error) {
	all, err := ReadHistoryFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	r.Timeline, r.Phases, r.Scenarios = nil, nil, slices.Clone(r.Scenarios)
	for i := range r.Scenarios {
		r.Scenarios[i].Loads = nil
	}
	all = append(all, r)
	var b bytes.Buffer
	for _, one := range all {
		if err = json.NewEncoder(&b).Encode(one); err != nil {
			return nil, err
		}
	}
	if err = durable.WriteFile(name, b.Bytes(), 0o644); err != nil {
		return nil, agentbox.Errorf(agentbox.Invalid, "cannot write the history to %s: %w", name, err)
	}
	return all, nil
}

// Course is how the median of a scenario went in a history.
type Course struct {
	Name      string    `json:"name"`
	Isolation string    `json:"isolation,omitempty"`
	Unit      string    `json:"unit"`
	P50       []float64 `json:"p50"` // oldest first, where the scenario was measured
	// Outcome compares the last with the one before, as Compare does; "" for a first one, and for
	// reports of two machines.
	Outcome Outcome `json:"outcome,omitempty"`
}

// Courses returns the course of each scenario of the last report.
func Courses(all []Report, tolerance float64) (out []Course) {
	if len(all) == 0 {
		return nil
	}
	last := all[len(all)-1]
	for _, s := range last.Scenarios {
		c := Course{Name: s.Name, Isolation: s.Isolation, Unit: s.Unit}
		for i, r := range all {
			at := slices.IndexFunc(r.Scenarios, func(o Result) bool { return o.Name == s.Name && o.Isolation == s.Isolation && o.Unit == s.Unit })
			if at < 0 {
				continue
			}
			c.P50 = append(c.P50, summarize(r.Scenarios[at].Samples).P50)
			if i < len(all)-1 {
				c.Outcome = ""
				if r.Machine == last.Machine {
					c.Outcome = change(r.Scenarios[at], s, tolerance).Outcome
				}
			}
		}
		out = append(out, c)
	}
	return out
}

// bars draw a value from the least to the largest.
const bars = "▁▂▃▄▅▆▇█"

// maxDrawn is how many of the last values a line of a table shows.
const maxDrawn = 40

// draw draws the last values as one line of bars.
func (c Course) draw() string {
	values := c.P50[max(0, len(c.P50)-maxDrawn):]
	low, high := slices.Min(values), slices.Max(values)
	var b strings.Builder
	for _, v := range values {
		b.WriteRune([]rune(bars)[int(7*level(v, low, high))])
	}
	return b.String()
}

// level is where a value is between the least (0) and the largest (1). Halves keep the difference of
// any two values finite.
func level(v, low, high float64) float64 {
	if high <= low {
		return 0
	}
	return part((v/2 - low/2) / (high/2 - low/2))
}

// WriteHistory writes the courses for people.
func WriteHistory(w io.Writer, all []Course) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join([]string{"SCENARIO", "ISOLATION", "RUNS", "FIRST", "LAST", "UNIT", "P50", "LAST RUN"}, "\t"))
	for _, c := range all {
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", agentbox.Printable(c.Name), agentbox.Printable(c.Isolation), len(c.P50),
			formatAmount(c.P50[0], c.Unit), formatAmount(c.P50[len(c.P50)-1], c.Unit), agentbox.Printable(unitName(c.Unit)), c.draw(), c.Outcome)
	}
	return t.Flush()
}
