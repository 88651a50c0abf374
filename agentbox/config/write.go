package config

import (
	"fmt"
	"strconv"
	"strings"

	"agentbox/agentbox/toolchain"
)

// Write gives a detected configuration as an agentbox.yaml that means the same.
func Write(c *Config) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Written by agentbox init: %s.\n", c.Source)
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

// asked says, as a comment, which files ask for a tool.
func asked(needs toolchain.Needs) string {
	var files []string
	for _, n := range needs {
		files = append(files, strconv.Quote(n.File))
	}
	return " # " + strings.ReplaceAll(someOf(files), "\n", " ")
}

func quoted(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = strconv.Quote(s)
	}
	return out
}
