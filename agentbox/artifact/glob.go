package artifact

import (
	"path"
	"strings"
)

// match tells whether a glob matches a name: * and ? stay within a directory, ** crosses any number
// of them, and a directory matches everything below it. Both are slash-separated and relative to
// the same directory.
func match(glob, name string) bool {
	return matchParts(strings.Split(glob, "/"), strings.Split(name, "/"))
}

// matchParts keeps track of which prefixes of the name each prefix of the glob matches, so it never
// takes longer than the product of their lengths. at[i] says that the glob's parts so far match the
// first i parts of the name.
func matchParts(glob, name []string) bool {
	at := make([]bool, len(name)+1)
	at[0] = true
	for _, g := range glob {
		next := make([]bool, len(name)+1)
		for i := range at {
			switch {
			// It matches no part, or one more than before.
			case g == "**":
				next[i] = at[i] || i > 0 && next[i-1]
			case i > 0 && at[i-1]:
				next[i], _ = path.Match(g, name[i-1])
			}
		}
		at = next
	}
	for i := 1; i <= len(name); i++ { // what is below a matching directory matches, too
		if at[i] {
			return true
		}
	}
	return false
}

// Prefixes are the paths below which all matches of the globs lie, "." for everything. They are
// directories or files, and may overlap.
func Prefixes(globs []string) []string {
	var out []string
	for _, glob := range globs {
		var fixed []string
		for part := range strings.SplitSeq(glob, "/") {
			if strings.ContainsAny(part, `*?[\`) {
				break
			}
			fixed = append(fixed, part)
		}
		if len(fixed) == 0 {
			return []string{"."}
		}
		out = append(out, strings.Join(fixed, "/"))
	}
	return out
}
