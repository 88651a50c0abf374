package agentbox

import (
	"fmt"
	"strings"
	"unicode"
)

// Plural returns "1 thing" or "n things", for a word whose plural is formed with an s.
func Plural(n int, thing string) string { return PluralOf(n, thing, thing+"s") }

// WorkText describes an amount of work: commits, and files with uncommitted changes.
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

// PluralOf returns n with the right form of a word whose plural is not formed with an s.
func PluralOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Printable makes text from outside (a box, a repository) safe to print. Control characters, escape
// sequences and characters that change the direction of writing become U+FFFD; a tab becomes a
// space. All text that we did not write must pass through here before it reaches a terminal, or its
// author could rewrite what the user has read.
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

// Clip cuts text from outside to at most 80 bytes, short enough to quote in a message, and marks the
// cut with an ellipsis. It never divides a character: invalid UTF-8 in what is left is dropped.
func Clip(s string) string {
	const most = 80
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
