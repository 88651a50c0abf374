package bench

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteTable writes the report for people: a line for the machine, one for each scenario, and the
// scenarios that were not measured, with the reason. The error is that of w.
func (r Report) WriteTable(w io.Writer) error {
	qemu := r.Machine.QEMU
	if qemu == "" {
		qemu = "none"
	}
	fmt.Fprintf(w, "agentbox %s, %s, %d CPUs, %.1f GiB, Linux %s, QEMU %s\n\n", r.Version, r.Started.Format(time.DateTime),
		r.Machine.CPUs, float64(r.Machine.Memory)/(1<<30), r.Machine.Kernel, qemu)
	if len(r.Checks) > 0 {
		if err := WriteChecks(w, r.Checks); err != nil || len(r.Scenarios) == 0 {
			return err
		}
		fmt.Fprintln(w)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, strings.Join([]string{"SCENARIO", "ISOLATION", "N", "FAILED", "MIN", "P50", "P95", "P99", "MAX", "UNIT", "AGAINST\t"}, "\t"))
	for _, s := range r.Scenarios {
		cells := []string{s.Name, isolation(s), fmt.Sprint(s.N), fmt.Sprint(s.Failures)}
		for _, v := range []float64{s.Min, s.P50, s.P95, s.P99, s.Max} {
			cells = append(cells, formatAmount(v, s.Unit))
		}
		fmt.Fprintln(t, strings.Join(append(cells, unitName(s.Unit), comparison(s)+"\t"), "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, s := range r.Scenarios {
		for _, why := range s.Reasons {
			fmt.Fprintf(w, "failed: %s: %s\n", strings.TrimSpace(s.Name+" "+isolation(s)), why)
		}
	}
	for _, s := range r.Scenarios {
		if line := s.slowest(r.Machine.CPUs); line != "" {
			fmt.Fprintln(w, line)
		}
	}
	for _, p := range r.Peers {
		fmt.Fprintf(w, "peer/%s (%s) ran: %s\n", p.Name, p.Version, p.Command)
	}
	for _, m := range r.Missing {
		fmt.Fprintf(w, "not measured: %s: %s\n", m.Name, m.Why)
	}
	for _, line := range r.Verdicts() {
		fmt.Fprintln(w, line)
	}
	return nil
}

// slowest says why the slowest sample of a command was much slower than the median, "" if it was not
// or nothing is known.
func (r Result) slowest(cpus int) string {
	i := slices.Index(r.Samples, r.Max)
	if i < 0 || i >= len(r.Loads) || r.Max < 1.5*r.P50 || r.Failures > 0 {
		return ""
	}
	why := cmp.Or(r.Loads[i].Blame(cpus), "nothing else than the command itself shows a cause")
	return fmt.Sprintf("slowest: %s: %.1f x its median: %s", strings.TrimSpace(r.Name+" "+isolation(r)), r.Max/r.P50, why)
}

// isolation returns the kind of boxes, and for a microVM its accelerator.
func isolation(s Result) string {
	if s.Accel == "" {
		return s.Isolation
	}
	return s.Isolation + "/" + s.Accel
}

// comparison returns the comparison of a scenario with others: its median divided by the other
// median. Below 1 it is faster or smaller.
func comparison(s Result) string {
	if s.Baseline == nil {
		return ""
	}
	text := fmt.Sprintf("%.3f of %s", s.Ratio, s.Baseline.Name)
	if s.Interval != nil {
		text += fmt.Sprintf(" (%.2f to %.2f)", s.Interval[0], s.Interval[1])
	}
	for _, c := range s.Comparisons {
		text += strings.TrimRight(fmt.Sprintf(", %.3f of %s %s", c.Ratio, c.Name, c.Isolation), " ")
	}
	return text
}

// formatAmount formats a value in its unit: bytes as MiB, short times with two digits.
func formatAmount(v float64, unit string) string {
	if unit == Bytes && v > 0 && v < 1<<20 {
		return fmt.Sprintf("%.4f", v/(1<<20))
	}
	if unit == Bytes {
		return fmt.Sprintf("%.1f", v/(1<<20))
	}
	if v < 10 {
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func unitName(unit string) string {
	if unit == Bytes {
		return "MiB"
	}
	return unit
}
