package config

import (
	"fmt"
	"strconv"
	"strings"

	"agentbox/agentbox/toolchain"
)

// Write gives a detected configuration as an agentbox.yaml that means the same. Only the keys that
// detection sets are written, and each of them: read again by Load, the result is the same but for
// Path, Source and the file that each tool is said to be asked for by. Other keys are shown as
// comments, for people to take up.
func Write(c *Config) string {
	var b strings.Builder
	// A name in Source may have a line break, which would end the comment.
	fmt.Fprintf(&b, "# Written by agentbox init: %s.\n", strings.Join(strings.Fields(c.Source), " "))
	fmt.Fprintf(&b, "image: %s\n", c.Image)
	if len(c.Packages) > 0 {
		fmt.Fprintf(&b, "packages: [%s]\n", strings.Join(c.Packages, ", "))
	}
	if len(c.Toolchain) > 0 {
		fmt.Fprintf(&b, "toolchain:\n")
	}
	for _, t := range c.Toolchain.Tools() {
		fmt.Fprintf(&b, "  %s: %s%s\n", t, strconv.Quote(c.Toolchain.Together(t)), asked(c.Toolchain.Of(t)))
	}
	if len(c.Lockfiles) > 0 {
		fmt.Fprintf(&b, "lockfiles: [%s]\n", strings.Join(quoted(c.Lockfiles), ", "))
	}
	b.WriteString("# memory: 4GiB         # else as this machine affords\n# setup: [make deps]   # runs once for each state of the lockfiles\n")
	return b.String()
}

// asked says, as a comment, which files ask for a tool. What stands in it comes from the repository
// and is quoted, so that a line break in a file's name cannot begin a key.
func asked(needs toolchain.Needs) string {
	var files []string
	for _, n := range needs {
		files = append(files, strconv.Quote(n.File))
	}
	return " # " + strings.ReplaceAll(someOf(files), "\n", " ")
}

// quoted makes every text one that YAML reads back as it was: Go's quoted form is valid as a
// double-quoted scalar.
func quoted(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = strconv.Quote(s)
	}
	return out
}
