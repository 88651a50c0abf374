package agentbox

import (
	"regexp"
	"sync"
)

// Pattern is a regular expression that is compiled when it is first asked for. Every command is a
// process of its own, and so is every supervisor: each would compile at its start all the patterns
// of the program, of which it uses few. The function may be called from several goroutines. It
// panics at the first call if expr is not a regular expression, as regexp.MustCompile does; expr is
// a constant, and the tests of the package that has it call it.
func Pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
