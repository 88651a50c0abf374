package environment

import (
	"maps"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"
)

// shellCommand is cmd for a server that passes one string to the user's shell. It is POSIX sh,
// whatever that shell is. exec leaves no shell in between, so that signals and the exit code are
// the command's; 126 is a shell's code for what it cannot invoke.
func shellCommand(cmd Command) string {
	var b strings.Builder
	if cmd.Dir != "" {
		b.WriteString("cd " + shellescape.Quote(cmd.Dir) + " || exit 126; ")
	}
	b.WriteString("exec ")
	if cmd.User != "" {
		b.WriteString("sudo -n -H -u " + shellescape.Quote(cmd.User) + " -- ")
	}
	if len(cmd.Env) > 0 {
		b.WriteString("env ")
		for _, k := range slices.Sorted(maps.Keys(cmd.Env)) {
			b.WriteString(shellescape.Quote(k+"="+cmd.Env[k]) + " ")
		}
	}
	if len(cmd.Argv) == 0 {
		b.WriteString(`"${SHELL:-/bin/sh}" -l`)
	} else {
		b.WriteString(shellescape.QuoteCommand(cmd.Argv))
	}
	return b.String()
}
