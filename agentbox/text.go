package agentbox

import (
	"fmt"
	"strings"
	"unicode"
)

// Plural is "1 thing" or "n things", of a word whose plural has an s.
func Plural(n int, thing string) string { return PluralOf(n, thing, thing+"s") }

// WorkText says how much work that is: commits, and files with changes that no commit has.
func WorkText(commits, files int) string {
	var parts []string
	if commits > 0 {
		parts = append(parts, Plural(commits, "commit"))
	}
	if files > 0 {
		parts = append(parts, Plural(files, "uncommitted file"))
	}
	if len(parts) == 0 {
		return "no work"
	}
	return strings.Join(parts, ", ")
}

// PluralOf is a number of things. It is n and the word for it, where adding an s would be wrong.
func PluralOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Printable is text from outside, such as a box or a repository, without what a terminal would take
// for more than text: control characters, escape sequences and the characters that turn the
// direction of writing become U+FFFD, a tab becomes a space. Whatever reaches a terminal and was
// not written by us has to pass through here, or its author could rewrite what the user has read.
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

// Clip is text from outside, short enough to be quoted in a message: its first 80 bytes. The cut may
// divide a character; what is left of it is dropped, as messages are valid UTF-8.
func Clip(s string) string {
	const most = 80
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
