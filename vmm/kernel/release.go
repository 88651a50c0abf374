package kernel

import (
	"cmp"
	"os"
	"strings"
)

// hostRelease is what `uname -r` prints, "" on a host that is not Linux.
func hostRelease() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// CompareReleases orders releases: runs of digits as numbers, everything else as text. It is
// negative when a is the older. A text that goes on is newer than one that ends there: 6.1.0-2
// follows 6.1.0.
func CompareReleases(a, b string) int {
	for a != "" && b != "" {
		var x, y string
		if isDigit(a[0]) && isDigit(b[0]) {
			x, a = cutRun(a, true)
			y, b = cutRun(b, true)
			x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
			if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
				return c
			}
			continue
		}
		x, a = cutRun(a, false)
		y, b = cutRun(b, false)
		if c := cmp.Compare(x, y); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// cutRun cuts s behind its first run of digits, or of everything else.
func cutRun(s string, digits bool) (string, string) {
	for i := range len(s) {
		if isDigit(s[i]) != digits {
			return s[:i], s[i:]
		}
	}
	return s, ""
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
