package project

import (
	"maps"
	"slices"
	"strings"

	"agentbox/agentbox"
)

// Heads are the branches of a remote, with their commits, and the one that it calls its HEAD, "" for
// none.
type Heads struct {
	Default  string
	Branches map[string]string
}

// maxHeads bounds the branches of a remote that are looked at.
const maxHeads = 10_000

// branchName matches names of branches that can be part of any command line. Others are left out: who can
// push chose them.
var branchName = agentbox.Pattern(`^[A-Za-z0-9_][A-Za-z0-9_.+#@=-]*(/[A-Za-z0-9_][A-Za-z0-9_.+#@=-]*)*$`)

var objectName = agentbox.Pattern(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// ParseHeads reads what `git ls-remote --symref REMOTE HEAD 'refs/heads/*'` prints.
func ParseHeads(text string) (Heads, error) {
	h := Heads{Branches: map[string]string{}}
	for line := range strings.Lines(text) {
		what, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if of, ok := strings.CutPrefix(what, "ref: refs/heads/"); ok && name == "HEAD" && isBranch(of) {
			h.Default = of
		}
		name, ok := strings.CutPrefix(name, "refs/heads/")
		if !ok || !isBranch(name) || !objectName().MatchString(what) {
			continue
		}
		if h.Branches[name] = what; len(h.Branches) > maxHeads {
			return h, agentbox.Errorf(agentbox.Invalid, "the remote has more than %d branches", maxHeads)
		}
	}
	return h, nil
}

func isBranch(name string) bool {
	return len(name) <= 200 && branchName().MatchString(name) && !strings.Contains(name, "..") && !strings.Contains(name, "@{") && !strings.HasSuffix(name, ".lock") && !strings.HasSuffix(name, ".")
}

// Since says what has changed since branches had the commits of known: which to prepare, the default one
// first, and which are gone or merged. merged has the commits that the default branch has, too. A branch
// that was never ahead of it is neither.
func (h Heads) Since(known map[string]string, merged map[string]bool) (prepare, gone []string) {
	for _, name := range slices.Sorted(maps.Keys(h.Branches)) {
		commit := h.Branches[name]
		switch before, was := known[name]; {
		case name == h.Default && before != commit:
			prepare = append([]string{name}, prepare...)
		case name == h.Default:
		case merged[commit] && was:
			gone = append(gone, name)
		case !merged[commit] && before != commit:
			prepare = append(prepare, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if _, there := h.Branches[name]; !there {
			gone = append(gone, name)
		}
	}
	return prepare, gone
}
