package toolchain

import (
	goversion "go/version"
	"strings"
)

// MajorOf returns the major number of the first version in a range, "" if it has none.
func MajorOf(r string) string { return FirstVersion(r, 1) }

// FirstVersion returns the first version in a range, with at most so many of its numbers.
func FirstVersion(r string, numbers int) string {
	start := strings.IndexAny(r, "0123456789")
	if start < 0 {
		return ""
	}
	r = r[start:]
	if end := strings.IndexFunc(r, func(c rune) bool { return c != '.' && (c < '0' || c > '9') }); end >= 0 {
		r = r[:end]
	}
	parts := strings.Split(strings.Trim(r, "."), ".")
	return strings.Join(parts[:min(len(parts), numbers)], ".")
}

// Newest returns the newest of some versions of Go or Rust, "" for none.
func Newest(versions []string) (newest string) {
	for _, v := range versions {
		if goversion.Compare("go"+newest, "go"+v) < 0 {
			newest = v
		}
	}
	return newest
}
