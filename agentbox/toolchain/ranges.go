package toolchain

import (
	"slices"
	"strings"
)

// maxAlternatives limits the alternatives in the intersection of ranges.
const maxAlternatives = 16

// intersect returns the range of versions that all ranges accept. Each may have alternatives,
// separated by ||. It drops alternatives beyond maxAlternatives, which makes the range narrower and
// never wider.
func intersect(ranges []string) string {
	out := []string{""}
	for _, r := range ranges {
		var next []string
		for _, left := range out {
			for right := range strings.SplitSeq(r, "||") {
				// Each range multiplies the alternatives, and files are not trusted.
				if len(next) < maxAlternatives {
					next = append(next, strings.TrimSpace(left+" "+strings.TrimSpace(right)))
				}
			}
		}
		out = next
	}
	return strings.Join(out, " || ")
}

// agreed returns those of some ranges that a version can satisfy together, the first one among them,
// as far as that can be told without a list of versions.
func agreed(ranges []string) []string {
	var out []string
	for _, r := range ranges {
		if !slices.ContainsFunc(out, func(other string) bool { return !overlap(r, other) }) {
			out = append(out, r)
		}
	}
	return out
}

// overlap reports whether the first version that one range names is in the other.
func overlap(a, b string) bool {
	return satisfies(firstVersion(a, 3), b) || satisfies(firstVersion(b, 3), a)
}

func rangeOf(n Need) string {
	switch n.Tool {
	case Python:
		return pythonRange(n.Constraint)
	case Rust:
		return ">=" + n.Constraint
	case Java:
		return majorOf(n.Constraint)
	case Ruby, PHP:
		return firstVersion(n.Constraint, 2) // the distribution's version has no more
	}
	return n.Constraint
}

// pythonRange translates version specifiers of PEP 440, as far as they apply to versions of Python
// itself. It leaves others unchanged; no version satisfies these.
func pythonRange(specifiers string) string {
	var out []string
	for s := range strings.SplitSeq(specifiers, ",") {
		s = strings.ReplaceAll(strings.TrimSpace(s), " ", "")
		switch {
		case strings.HasPrefix(s, "~="):
			s = compatible(s[2:])
		case strings.HasPrefix(s, "==="):
			s = "=" + s[3:]
		case strings.HasPrefix(s, "=="):
			s = "=" + s[2:]
		}
		if s != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, ", ")
}

// compatible translates the compatible release of PEP 440: ~=3.10 accepts 3.11, ~=3.10.2 does not.
func compatible(v string) string {
	if strings.Count(v, ".") >= 2 {
		return "~" + v
	}
	return "^" + v
}

// imageFor returns an image that should meet a need, for tools whose official images are tagged by
// version; "" for others. Whether there is one has to be asked.
func imageFor(n Need) string {
	v := firstVersion(n.Constraint, 2)
	if v == "" {
		return ""
	}
	switch n.Tool {
	case Python, Rust, Ruby:
		return string(n.Tool) + ":" + v
	case PHP:
		return "php:" + v + "-cli"
	case Java:
		return "eclipse-temurin:" + majorOf(v)
	case Node:
		return "node:" + majorOf(v)
	}
	return ""
}

// majorOf returns the major number of the first version in a range, "" if it has none.
func majorOf(r string) string { return firstVersion(r, 1) }

// firstVersion returns the first version in a range, with at most so many of its numbers.
func firstVersion(r string, numbers int) string {
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
