package toolchain

import "strings"

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

// rangeOf returns a need's constraint in the notation of semantic versioning.
func rangeOf(n Need) string {
	switch n.Tool {
	case Python:
		return pythonRange(n.Constraint)
	case Rust:
		return ">=" + n.Constraint
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

// imageFor returns an image that meets a need, for tools whose official images are tagged by minor
// version; "" for others.
func imageFor(n Need) string {
	v := firstVersion(n.Constraint)
	if v == "" {
		return ""
	}
	switch n.Tool {
	case Python:
		return "python:" + v
	case Rust:
		return "rust:" + v
	case Node:
		major, _, _ := strings.Cut(v, ".")
		return "node:" + major
	}
	return ""
}

// firstVersion returns the first version in a range, without its patch number.
func firstVersion(r string) string {
	start := strings.IndexAny(r, "0123456789")
	if start < 0 {
		return ""
	}
	r = r[start:]
	if end := strings.IndexFunc(r, func(c rune) bool { return c != '.' && (c < '0' || c > '9') }); end >= 0 {
		r = r[:end]
	}
	parts := strings.Split(strings.Trim(r, "."), ".")
	return strings.Join(parts[:min(len(parts), 2)], ".")
}
