package resolve

import (
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/toolchain"
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
	return satisfies(toolchain.FirstVersion(a, 3), b) || satisfies(toolchain.FirstVersion(b, 3), a)
}

func rangeOf(n toolchain.Need) string {
	switch n.Tool {
	case toolchain.Python:
		return pythonRange(n.Constraint)
	case toolchain.Rust:
		return ">=" + n.Constraint
	case toolchain.Java:
		return toolchain.MajorOf(n.Constraint)
	case toolchain.Ruby, toolchain.PHP:
		return toolchain.FirstVersion(n.Constraint, 2) // the distribution's version has no more
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
func imageFor(n toolchain.Need) string {
	v := toolchain.FirstVersion(n.Constraint, 2)
	if v == "" {
		return ""
	}
	switch n.Tool {
	case toolchain.Python, toolchain.Rust, toolchain.Ruby:
		return string(n.Tool) + ":" + v
	case toolchain.PHP:
		return "php:" + v + "-cli"
	case toolchain.Java:
		return "eclipse-temurin:" + toolchain.MajorOf(v)
	case toolchain.Node:
		return "node:" + toolchain.MajorOf(v)
	}
	return ""
}

// version parses a version that has passed a pattern. A release candidate counts as its release.
func version(s string) *semver.Version {
	for _, mark := range []string{"rc", "beta"} {
		s, _, _ = strings.Cut(s, mark)
	}
	v, err := semver.NewVersion(s)
	if err != nil {
		return semver.New(0, 0, 0, "", "")
	}
	return v
}

// leadingZero matches a number that semantic versioning does not allow.
var leadingZero = agentbox.Pattern(`(^|[^0-9])0[0-9]`)

// satisfies reports whether a version is in a range. No version satisfies a malformed range.
func satisfies(candidate, wanted string) bool {
	if leadingZero().MatchString(wanted) {
		return false
	}
	c, err := semver.NewConstraint(wanted)
	return err == nil && c.Check(version(candidate))
}
