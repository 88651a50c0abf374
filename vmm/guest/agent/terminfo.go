//go:build linux

package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// terminfoDirs are where programs look for the descriptions of terminals (terminfo(5)).
func terminfoDirs(home string) []string {
	return []string{filepath.Join(home, ".terminfo"), "/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo", "/usr/lib/terminfo"}
}

// knownTerminal returns the value of TERM for a user whose terminal is term: the same if one of
// dirs describes it, else a related one that is described. Terminals of recent years call
// themselves by names that few images know, understand what xterm-256color does, and programs give
// up on a name that they do not know. Where nothing is described, term stays.
func knownTerminal(term string, dirs []string) string {
	described := func(name string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool {
			_, err := os.Stat(filepath.Join(dir, name[:1], name))
			return err == nil
		})
	}
	if strings.Contains(term, "/") || strings.HasPrefix(term, ".") {
		return term // no name of a terminal, and none of a file to be looked for
	}
	related := []string{term, "xterm-256color", "xterm"}
	if strings.HasPrefix(term, "tmux") || strings.HasPrefix(term, "screen") {
		related = []string{term, "screen-256color", "screen", "xterm-256color"}
	}
	if i := slices.IndexFunc(related, described); i >= 0 {
		return related[i]
	}
	return term
}
