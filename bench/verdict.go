package bench

import (
	"fmt"
	"slices"
	"strings"

	"agentbox/agentbox"
)

// enterGoal is what entering a context may take at most.
const enterGoal = "10 s"

// Verdicts returns one line for each kind of box: how long entering takes, and how the repository's
// commands compare with the machine. It is empty for reports without a repository.
func (r Report) Verdicts() (out []string) {
	var kinds []string
	for _, s := range r.Scenarios {
		if s.Name == "enter/new" && !slices.Contains(kinds, s.Isolation) {
			kinds = append(kinds, s.Isolation)
		}
	}
	for _, kind := range kinds {
		out = append(out, kind+": "+strings.Join(r.verdict(kind), "; "))
	}
	return out
}

// special are the scenarios of commands that the line leaves out.
var special = agentbox.Pattern(`-cold$|-of-[0-9]+$`)

func (r Report) verdict(kind string) (parts []string) {
	entering, failed := 0.0, 0
	for _, s := range r.Scenarios {
		name, command := strings.CutPrefix(s.Name, "work/")
		switch {
		case s.Isolation != kind:
			continue
		case special().MatchString(name):
		case strings.HasPrefix(s.Name, "enter/") && s.Name != "enter/first":
			entering = max(entering, s.P95)
		case command && s.Failures == 0 && s.Baseline != nil:
			parts = append(parts, fmt.Sprintf("%s %.1f x the machine", name, s.Ratio))
		case command && s.Failures == 0:
			parts = append(parts, fmt.Sprintf("%s %s %s", name, formatAmount(s.P50, s.Unit), s.Unit))
		}
		failed += s.Failures
	}
	parts = append([]string{fmt.Sprintf("entering %.1f s p95 of %s", entering/1000, enterGoal)}, parts...)
	if checks, broken := r.checked(kind); checks > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d checks of a workstation fail", broken, checks))
	}
	if failed > 0 {
		parts = append(parts, fmt.Sprintf("%d samples FAILED", failed))
	}
	return parts
}

// checked counts the checks of a kind of box, and those that failed.
func (r Report) checked(kind string) (all, failed int) {
	for _, c := range r.Checks {
		if c.Isolation == kind {
			all++
			if !c.Works {
				failed++
			}
		}
	}
	return all, failed
}
