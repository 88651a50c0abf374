package agentbox

import (
	"regexp"
	"sync"
)

// Pattern returns a func that compiles a regular expression on its first call. Every command and
// every supervisor is a process of its own and uses few of the program's patterns, so compiling all
// of them at start would be wasted time. The func may be called from several goroutines. Like
// regexp.MustCompile, it panics on its first call if expr is not a regular expression; so expr must
// be a constant, and the tests of its package must call the func.
func Pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
