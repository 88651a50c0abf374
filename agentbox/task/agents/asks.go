package agents

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Asks lists everything that running the agent means, one line each: what runs, where it may
// connect to, and which secrets it may send. A person who approves a profile approves these lines.
// Two profiles with the same lines are the same; one with some of another's lines asks for less.
// The order is fixed, and names and values are quoted, so that no value can pretend to be another
// line.
func (p Profile) Asks() []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, p.Name+" "+fmt.Sprintf(format, args...)) }
	say("runs %s%s", p.Program, quoteWords(p.Flags))
	if len(p.Tools) > 0 {
		say("connects to the host's tools by%s", quoteWords(p.Tools))
	}
	if len(p.Prompt) > 0 {
		say("works alone by%s", quoteWords(p.Prompt))
	}
	if p.Package != "" {
		say("is package %s of npm", p.Package)
	}
	if p.Native.Package != "" {
		say("is file %q of package %q of npm, where that is", p.Native.File, p.Native.Package)
	}
	if p.Pip != "" {
		say("is package %s of the Python index", p.Pip)
	}
	for _, tool := range slices.Sorted(maps.Keys(p.Toolchain)) {
		say("needs %s %q", tool, p.Toolchain[tool])
	}
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		say("has %s=%q", name, p.Env[name])
	}
	for _, rule := range p.Hosts {
		say("reaches %q", rule)
	}
	for _, rule := range p.Private {
		say("reaches private %q", rule)
	}
	for _, s := range p.Secrets {
		line := fmt.Sprintf("sends your secret %s to%s", s.Name, quoteWords(s.To))
		if len(s.Env) > 0 {
			line += " from your variable" + quoteWords(s.Env)
		}
		if s.Header != "" || s.As != "" {
			line += fmt.Sprintf(" in header %q as %q", s.Header, s.As)
		}
		say("%s", line)
	}
	for _, dir := range p.Sessions {
		say("keeps %q", dir)
	}
	if p.Save != "" {
		say("runs %q to save what it keeps", p.Save)
	}
	if p.Restore != "" {
		say("runs %q to restore what it kept", p.Restore)
	}
	return out
}

// quoteWords is each word in quotes, after a space.
func quoteWords(list []string) string {
	var b strings.Builder
	for _, s := range list {
		fmt.Fprintf(&b, " %q", s)
	}
	return b.String()
}
