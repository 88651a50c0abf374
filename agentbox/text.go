package agentbox

import (
	"fmt"
	"strings"
	"unicode"
)

// Plural is a number of things whose plural has an s.
func Plural(n int, thing string) string { return PluralOf(n, thing, thing+"s") }

// PluralOf is a number of things.
func PluralOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Printable is text that somebody else wrote, without what a terminal would take for more than
// text: a space in place of a tab, U+FFFD in place of anything else.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r):
			return r
		case r == '\t':
			return ' '
		}
		return unicode.ReplacementChar
	}, s)
}
