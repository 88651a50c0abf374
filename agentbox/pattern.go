package agentbox

import (
	"regexp"
	"sync"
)

// Pattern is a regular expression that is compiled when it is asked for first. Every command is a
// process, and a supervisor too: what all of them would compile at their start, few of them use.
// It panics then if expr is none, as regexp.MustCompile does; the tests of who uses it find out.
func Pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
