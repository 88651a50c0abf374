package kernel

import (
	"cmp"
	"os"
	"slices"
	"strings"

	"agentbox/agentbox"
)

// hostRelease is what `uname -r` prints, "" on a host that is not Linux.
func hostRelease() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// run is a run of digits, or of everything else.
var run = agentbox.Pattern(`[0-9]+|[^0-9]+`)

// CompareReleases orders releases: runs of digits as numbers, everything else as text, and a number
// before a text. It is negative when a is the older. A text that goes on is newer than one that
// ends there: 6.1.0-2 follows 6.1.0.
func CompareReleases(a, b string) int {
	return slices.CompareFunc(run().FindAllString(a, -1), run().FindAllString(b, -1), func(x, y string) int {
		switch number := isDigit(x[0]); {
		case number != isDigit(y[0]) && number:
			return -1
		case number != isDigit(y[0]):
			return 1
		case number:
			x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
			return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
		}
		return cmp.Compare(x, y)
	})
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
