package config

import (
	"fmt"
	"strconv"
	"strings"

	"agentbox/agentbox/toolchain"
)

// Write returns a detected configuration as an equivalent agentbox.yaml. It writes exactly the
// keys that detection sets. Reading the result with Load yields the same Config, except for
// Path, Source and the files that ask for each tool. Some other keys appear as comments, as a
// suggestion.
func Write(c *Config) string {
	var b strings.Builder
	// A file name in Source may contain a line break, which would end the comment.
	fmt.Fprintf(&b, "# Written by agentbox init: %s.\n", strings.Join(strings.Fields(c.Source), " "))
	fmt.Fprintf(&b, "image: %s\n", c.Image)
	if len(c.Packages) > 0 {
		fmt.Fprintf(&b, "packages: [%s]\n", strings.Join(c.Packages, ", "))
	}
	if len(c.Toolchain) > 0 {
		fmt.Fprintf(&b, "toolchain:\n")
	}
	for _, t := range c.Toolchain.Tools() {
		fmt.Fprintf(&b, "  %s: %s%s\n", t, versions(c.Toolchain.Constraints(t)), toolComment(c.Toolchain.ForTool(t)))
	}
	if len(c.Lockfiles) > 0 {
		fmt.Fprintf(&b, "lockfiles: [%s]\n", strings.Join(quoted(c.Lockfiles), ", "))
	}
	b.WriteString("# memory: 4GiB         # default: depends on this machine\n# setup: [make deps]   # runs once for each state of the lockfiles\n")
	return b.String()
}

// versions writes the constraints on a tool: one, or a list where files differ.
func versions(constraints []string) string {
	if len(constraints) < 2 {
		return strconv.Quote(strings.Join(constraints, ""))
	}
	return "[" + strings.Join(quoted(constraints), ", ") + "]"
}

// toolComment returns a comment that names the files which ask for a tool. File names come from the
// repository and are quoted, so that a line break in one cannot begin a key.
func toolComment(needs toolchain.Needs) string {
	var files []string
	for _, n := range needs {
		files = append(files, strconv.Quote(n.File))
	}
	return " # " + strings.ReplaceAll(joinSome(files), "\n", " ")
}

// quoted quotes each string for YAML. Go's quoted form is a valid double-quoted scalar.
func quoted(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = strconv.Quote(s)
	}
	return out
}
