package bench

import (
	"strconv"
	"strings"
	"time"
)

// Phase is a step of entering a box, as the command itself reports it.
type Phase struct {
	Name         string  `json:"name"`
	Milliseconds float64 `json:"ms"`
}

// parsePhases reads the steps from what agentbox prints without a terminal: a dash, the step, its
// time, and details. It leaves out all other lines.
func parsePhases(stderr string) (out []Phase) {
	for text := range strings.Lines(stderr) {
		rest, ok := strings.CutPrefix(text, "- ")
		words := strings.Fields(rest)
		if !ok || len(words) < 2 {
			continue
		}
		if s, err := strconv.ParseFloat(words[1], 64); err == nil && len(words) > 2 && words[2] == "s" {
			out = append(out, Phase{words[0], s * 1000})
		} else if d, err := time.ParseDuration(words[1]); err == nil {
			out = append(out, Phase{words[0], InMilliseconds(d)})
		}
	}
	return out
}
