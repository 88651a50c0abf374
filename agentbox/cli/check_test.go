package cli

import (
	"strings"
	"testing"

	"agentbox/agentbox"
)

func TestCheckText(t *testing.T) {
	zero, one := 0, 1
	for want, c := range map[string]agentbox.CheckResult{
		"passed":              {Exit: &zero},
		"passed, with output": {Exit: &zero, Output: "a.go\n"},
		"exit code 1":         {Exit: &one, Output: "a.go\n"},
		"exit code 1; it was refused a path that leads out of the repository: ../a": {Exit: &one, Problem: agentbox.CheckOutside, Detail: "../a"},
		"its calls are nested too deeply":                                           {Problem: agentbox.CheckRecursion},
		"not run, since its module cannot be used: gone":                            {Problem: agentbox.CheckUnusable, Detail: "gone"},
	} {
		if got := checkText(c); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	long := agentbox.CheckResult{Output: "a\nb\nc\n", Omitted: 2048}
	if got := strings.Join(outputLines(long, 1), "; "); got != "a; (and 2 more lines); (and 2 KiB that were not kept)" {
		t.Errorf("%q", got)
	}
}
