package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"agentbox/agentbox"
)

// Change is what became of a scenario between two reports.
type Change struct {
	Name      string  `json:"name"`
	Isolation string  `json:"isolation,omitempty"`
	Unit      string  `json:"unit"`
	Old       float64 `json:"old"` // medians
	New       float64 `json:"new"`
	P         float64 `json:"p"` // the probability of such samples if nothing changed
	Outcome   Outcome `json:"outcome"`
}

// Outcome is the decision about a scenario.
type Outcome string

// The outcomes. Less than the tolerance, or what may be chance, is Same.
const (
	Same   Outcome = "same"
	Faster Outcome = "faster" // or smaller
	Slower Outcome = "slower" // or larger
	Unsure Outcome = "too few samples"
)

// leastSamples is the least number in each report for which the test can tell anything.
const leastSamples = 4

// Compare decides for each scenario that both reports have whether its samples differ, by the
// Mann-Whitney U-test at 5%, and by more than tolerance, a part of the old median.
func Compare(older, newer Report, tolerance float64) (out []Change) {
	before := map[Ref]Result{}
	for _, s := range older.Scenarios {
		before[Ref{s.Name, agentbox.Isolation(s.Isolation)}] = s
	}
	for _, s := range newer.Scenarios {
		if was, ok := before[Ref{s.Name, agentbox.Isolation(s.Isolation)}]; ok && was.Unit == s.Unit {
			out = append(out, change(was, s, tolerance))
		}
	}
	return out
}

// change compares a scenario. The medians are of the samples themselves, not what a file says.
func change(was, is Result, tolerance float64) Change {
	c := Change{Name: is.Name, Isolation: is.Isolation, Unit: is.Unit, Old: summarize(was.Samples).P50, New: summarize(is.Samples).P50, P: 1, Outcome: Same}
	if min(len(was.Samples), len(is.Samples)) < leastSamples {
		c.Outcome = Unsure
		return c
	}
	p, yes := differ(was.Samples, is.Samples)
	c.P = p
	switch {
	case !yes:
	case c.New > c.Old*(1+tolerance):
		c.Outcome = Slower
	case c.New < c.Old*(1-tolerance):
		c.Outcome = Faster
	}
	return c
}

// maxReport is far more than a report of 10,000 samples of each scenario has, in bytes.
const maxReport = 64 << 20

// ReadReport reads the JSON of a report. Its texts are of whoever wrote the file.
func ReadReport(in io.Reader) (r Report, err error) {
	data, err := io.ReadAll(io.LimitReader(in, maxReport+1))
	switch {
	case err != nil:
		return r, err
	case len(data) > maxReport:
		return r, fmt.Errorf("it is larger than %d MiB", maxReport>>20)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, err
	}
	if r.Schema != Schema {
		return r, fmt.Errorf("its schema is %q, not %s", agentbox.Clip(r.Schema), Schema)
	}
	return r, nil
}

// ReadReportFile is ReadReport of a file.
func ReadReportFile(name string) (Report, error) {
	f, err := os.Open(name)
	if err == nil {
		defer f.Close()
		var r Report
		if r, err = ReadReport(f); err == nil {
			return r, nil
		}
	}
	return Report{}, agentbox.Errorf(agentbox.Invalid, "%s is no report of a benchmark: %w", name, err).WithHint("agentbox bench --json FILE writes one")
}

// WriteChanges writes the table of a comparison for people.
func WriteChanges(w io.Writer, all []Change) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join([]string{"SCENARIO", "ISOLATION", "OLD", "NEW", "UNIT", "CHANGE", "P", "OUTCOME"}, "\t"))
	for _, c := range all {
		percent := "?"
		if c.Old > 0 {
			percent = fmt.Sprintf("%+.1f%%", 100*(c.New/c.Old-1))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%.3f\t%s\n", agentbox.Printable(c.Name), agentbox.Printable(cmp.Or(c.Isolation, "-")),
			formatAmount(c.Old, c.Unit), formatAmount(c.New, c.Unit), agentbox.Printable(unitName(c.Unit)), percent, c.P, c.Outcome)
	}
	return t.Flush()
}
