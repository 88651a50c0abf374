package policy

import (
	"fmt"
	"net/url"
	"path"
	"strings"

	"agentbox/agentbox"
)

// checkPattern refuses a path that no request in canonical form can have, so that a rule that would
// never cover anything is reported as a mistake.
func checkPattern(p string) error {
	if strings.ContainsAny(p, "?#%\\ ") || strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("%q is not a path pattern: write the path as it is after decoding, without query", agentbox.Clip(p))
	}
	if strings.Contains(p, "***") {
		return fmt.Errorf("%q is not a path pattern: * stays within a segment, ** does not", agentbox.Clip(p))
	}
	if clean := path.Clean(p); clean != p && clean+"/" != p {
		return fmt.Errorf("%q is not a path pattern: write %q", agentbox.Clip(p), agentbox.Clip(clean))
	}
	return nil
}

// CanonicalPath returns the form in which the path of a request is compared: decoded once, without
// query. ok is false for a path that different servers interpret differently (encoded slashes,
// dots, percents; dot segments; empty segments; parameters after a semicolon). Such a request is
// covered by no rule that allows a path, and the result is raw without its query. A trailing slash
// stays: it is another path.
func CanonicalPath(raw string) (string, bool) {
	raw, _, _ = strings.Cut(raw, "?")
	p, err := url.PathUnescape(raw)
	if err != nil || !strings.HasPrefix(p, "/") || strings.Count(p, "/") != strings.Count(raw, "/") {
		return raw, false
	}
	if strings.ContainsAny(p, "%\\;") || strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return raw, false
	}
	clean := path.Clean(p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return p, clean == p
}

// matchPath matches a raw path: * within a segment, ** over any number of them.
func matchPath(pattern, raw string) bool {
	p, ok := CanonicalPath(raw)
	return ok && match(pattern, p)
}

// match keeps the set of positions in the pattern that the text so far may have reached, so that no
// pattern takes longer than its length times that of the text.
func match(pattern, s string) bool {
	at := make([]bool, len(pattern)+1)
	at[0] = true
	for i := 0; ; i++ {
		for j := range pattern { // a wildcard may stand for nothing
			if at[j] && pattern[j] == '*' {
				at[j+wildcardLength(pattern, j)] = true
			}
		}
		if i == len(s) {
			return at[len(pattern)]
		}
		next := make([]bool, len(pattern)+1)
		for j := range pattern {
			switch {
			case !at[j]:
			case pattern[j] == '*':
				next[j] = wildcardLength(pattern, j) == 2 || s[i] != '/'
			case pattern[j] == s[i]:
				next[j+1] = true
			}
		}
		at = next
	}
}

func wildcardLength(pattern string, j int) int {
	if strings.HasPrefix(pattern[j:], "**") {
		return 2
	}
	return 1
}
