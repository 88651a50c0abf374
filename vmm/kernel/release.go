package kernel

import (
	"cmp"
	"os"
	"slices"
	"strings"

	"agentbox/agentbox"
)

// hostRelease returns what `uname -r` prints, "" on a host that is not Linux.
func hostRelease() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// run matches a run of digits, or of everything else.
var run = agentbox.Pattern(`[0-9]+|[^0-9]+`)

// CompareReleases compares two releases; the result is negative if a is older. It compares runs of
// digits as numbers and everything else as text, and a number comes before a text. Of two releases
// that begin alike the longer one is newer: 6.1.0-2 follows 6.1.0.
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
