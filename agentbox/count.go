package agentbox

import "fmt"

// Plural is a number of things whose plural has an s.
func Plural(n int, thing string) string { return PluralOf(n, thing, thing+"s") }

// PluralOf is a number of things.
func PluralOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
