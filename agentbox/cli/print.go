package cli

import (
	"bufio"
	"fmt"
	"strings"
	"time"

	"agentbox/agentbox"
)

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
