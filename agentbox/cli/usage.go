package cli

import (
	"context"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"
	"github.com/agext/levenshtein"
	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
)

// strict makes a command and those below it answer for every word on their command line: a mistyped flag gets the same
// two lines as any other error and not a page of help, and what nobody asked for is not dropped in silence, before -- or after.
func (a *app) strict(cmd *cli.Command) {
	cmd.OnUsageError = a.usageError
	cmd.DisableSliceFlagSeparator = true // a comma in the value of a variable is the user's
	action, group := cmd.Action, len(cmd.Commands) > 0
	cmd.Action = func(ctx context.Context, cmd *cli.Command) error {
		switch most := maxArgs(cmd); {
		case group && cmd.Args().Present():
			return unknown(cmd, cmd.Args().First())
		case group && action == nil:
			return cli.ShowSubcommandHelp(cmd)
		case most >= 0 && cmd.Args().Len() > most:
			return agentbox.Errorf(agentbox.Invalid, "%s takes no argument %q", cmd.Name, cmd.Args().Get(most)).WithHint("%s --help", cmd.FullName())
		case a.command != nil && !strings.Contains(cmd.ArgsUsage, "-- "):
			return agentbox.Errorf(agentbox.Invalid, "%s runs no command, so nothing may stand behind --", cmd.Name).WithHint("leave out the --: %s --help", cmd.FullName())
		}
		return action(ctx, cmd)
	}
	for _, sub := range cmd.Commands {
		a.strict(sub)
	}
}

// maxArgs is how many arguments a command takes, -1 for one that counts them itself.
func maxArgs(cmd *cli.Command) int {
	switch cmd.ArgsUsage {
	case "":
		return 0
	case "[BOX]":
		return 1
	}
	return -1
}

const undefinedFlag = "flag provided but not defined: "

func (a *app) usageError(_ context.Context, cmd *cli.Command, err error, _ bool) error {
	e := agentbox.Errorf(agentbox.Invalid, "%w", err).WithHint("%s --help", cmd.FullName())
	if name, ok := strings.CutPrefix(err.Error(), undefinedFlag); ok {
		name = strings.TrimLeft(name, "-")
		e = agentbox.Errorf(agentbox.Invalid, "%s has no flag %s", cmd.Name, dashed(name)).WithHint("%s --help lists them", cmd.FullName())
		if near := cli.SuggestFlag(flagsOf(cmd), name, false); alike(name, strings.TrimLeft(near, "-")) {
			e.Hint = "did you mean " + near + "?"
		}
	}
	if meant := a.dashesLeftOut(cmd); meant != "" {
		e.Hint = meant
	}
	return e
}

// dashesLeftOut is the command line with -- before the words of a command, when such words stand before a flag that we cannot
// take: it is that command's, most likely.
func (a *app) dashesLeftOut(cmd *cli.Command) string {
	words, boxes := cmd.Args().Slice(), 0
	if strings.HasPrefix(cmd.ArgsUsage, "[BOX]") {
		boxes = 1
	}
	if a.command != nil || !strings.Contains(cmd.ArgsUsage, "-- ") || len(words) <= boxes {
		return ""
	}
	at := 0 // where the command begins: behind our own words, which come in this order
	for _, word := range append([]string{cmd.Name}, words[:boxes+1]...) {
		at += 1 + slices.Index(a.args[at:], word)
	}
	ours, command := a.args[1:at-1], a.args[at-1:]
	return shellescape.QuoteCommand(slices.Concat([]string{"agentbox"}, ours, []string{"--"}, command))
}

// dashed is a flag as people write it.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// flagsOf are the flags a command understands: its own, and those of the program.
func flagsOf(cmd *cli.Command) []cli.Flag {
	flags := append([]cli.Flag{}, cmd.Flags...)
	if root := cmd.Root(); root != cmd {
		flags = append(flags, root.Flags...)
	}
	return flags
}

func unknown(cmd *cli.Command, name string) error {
	err := agentbox.Errorf(agentbox.Invalid, "%q is not a command of %s", name, cmd.FullName()).WithHint("%s --help lists them", cmd.FullName())
	if near := cli.SuggestCommand(cmd.VisibleCommands(), name); alike(name, near) {
		err.Hint = "did you mean `" + cmd.FullName() + " " + near + "`?"
	}
	return err
}

// alike tells whether a word may be another one mistyped: the library suggests the nearest, however far.
func alike(word, near string) bool {
	return near != "" && levenshtein.Distance(word, near, nil) <= max(1, len(near)/3)
}
