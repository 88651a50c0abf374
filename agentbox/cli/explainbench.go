package cli

import (
	"fmt"

	"agentbox/agentbox"
	"agentbox/agentbox/lastbench"
	"agentbox/bench"
)

// benchLines say how the repository's own commands compared with the machine itself when `bench` ran
// here last, a line for each command and kind.
func benchLines(dir string) (lines []string) {
	var report bench.Report
	if !lastbench.Of(dir, &report) {
		return nil
	}
	for _, s := range report.Scenarios {
		if s.Ratio > 0 && s.Baseline != nil && s.Isolation != "" {
			lines = append(lines, agentbox.Printable(fmt.Sprintf("%s in %s: %.1f times %s, %s ago", s.Name, s.Isolation, s.Ratio, s.Baseline.Name, agoText(report.Started))))
		}
	}
	return lines
}
