package agentbox

import (
	"fmt"
	"strings"
	"unicode"
)

// Plural returns "1 thing" or "n things", for a word whose plural is formed with an s.
func Plural(n int, thing string) string { return PluralOf(n, thing, thing+"s") }

// WorkText describes an amount of work: commits, files with uncommitted changes, and what is beside
// them.
func WorkText(commits, files int, others ...OtherWork) string {
	parts := amounts(commits, files)
	const most = 5
	for _, o := range others[:min(len(others), most)] {
		parts = append(parts, o.String())
	}
	if n := len(others) - most; n > 0 {
		parts = append(parts, fmt.Sprintf("%d more", n))
	}
	if len(parts) == 0 {
		return "no work"
	}
	return strings.Join(parts, ", ")
}

func amounts(commits, files int) (parts []string) {
	if commits > 0 {
		parts = append(parts, Plural(commits, "commit"))
	}
	if files > 0 {
		parts = append(parts, Plural(files, "uncommitted file"))
	}
	return parts
}

// String names the part of the work, and says how much it is if that is known.
func (o OtherWork) String() string {
	text := o.Name
	if o.Path != "" {
		text = o.Path + " (" + o.Name + ")"
	}
	if much := amounts(o.Commits, o.Files); len(much) > 0 {
		text += " with " + strings.Join(much, " and ")
	}
	return text
}

// WorkText says what an attempt left behind, and where it is.
func (r Result) WorkText() string {
	// The counts come first, then the ref to paste.
	text := WorkText(r.Commits, r.Files, r.OtherWork...)
	switch {
	case r.Ref != "":
		text += " in " + r.Ref
	case r.Commits > 0 || r.Files > 0:
		text += " in box " + r.Box
	case r.Box != "" && !r.Uncollected:
		// The box was kept because its work could not be examined, so the amount is unknown.
		text = "work in box " + r.Box
	}
	if r.Unexported != "" {
		text += ", which the checkout does not have: " + r.Unexported
	}
	if len(r.Missing) > 0 {
		text += ", not all of which could be kept, in box " + r.Box + ": " + strings.Join(r.Missing, "; ")
	}
	if r.Uncollected {
		text += "; artifacts that could not be copied are in box " + r.Box
	}
	notes := append([]string{text}, r.Notes...)
	if r.State == TaskSucceeded && r.Used != nil {
		if t := r.Used.Tokens(); t.Unfinished() != "" {
			notes = append(notes, fmt.Sprintf("of %s of its model, %s", Plural(int(t.Answers), "answer"), t.Unfinished()))
		}
	}
	return strings.Join(notes, "; ")
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
