package cli

import (
	"context"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
)

// strict makes a command and those below it answer for every word on their command line: a mistyped
// flag gets the same two lines as any other error and not a page of help, and what nobody asked for
// is not dropped in silence, before -- or after.
func (a *app) strict(cmd *cli.Command) {
	cmd.OnUsageError = a.usageError
	cmd.DisableSliceFlagSeparator = true // a comma in the value of a variable is the user's
	action, group := cmd.Action, len(cmd.Commands) > 0
	cmd.Action = func(ctx context.Context, cmd *cli.Command) error {
		switch most := a.maxArgs(cmd); {
		// In order: a word that is no verb of a group; a group alone; too many words; a -- where no
		// command is run.
		case group && cmd.ArgsUsage == "" && cmd.Args().Present():
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

// maxArgs is how many words a command takes before the --, -1 for one that counts them itself.
func (a *app) maxArgs(cmd *cli.Command) int {
	switch usage := cmd.ArgsUsage; {
	case usage == "":
		return 0
	case usage == "[BOX]", usage == "[BOX|TASK]":
		return 1
	case usage == "[BOX] [JOB]":
		return 2
	case a.command != nil && strings.HasPrefix(usage, "-- "):
		return 0 // the command stands behind it
	}
	return -1
}

// undefinedFlag begins the library's error for an unknown flag. It has no type to tell it by, so a
// version that words it differently costs the suggestion and nothing else.
const undefinedFlag = "flag provided but not defined: "

// usageError makes one of our errors of a mistake on the command line: what is wrong, and what may
// have been meant.
func (a *app) usageError(_ context.Context, cmd *cli.Command, err error, _ bool) error {
	e := agentbox.Errorf(agentbox.Invalid, "%w", err).WithHint("%s --help", cmd.FullName())
	if name, ok := strings.CutPrefix(err.Error(), undefinedFlag); ok {
		name = strings.TrimLeft(name, "-")
		e = agentbox.Errorf(agentbox.Invalid, "%s has no flag %s", cmd.Name, dashed(name)).WithHint("%s --help lists them", cmd.FullName())
		if near := cli.SuggestFlag(flagsOf(cmd), name, false); alike(name, strings.TrimLeft(near, "-")) {
			e.Hint = "did you mean " + near + "?"
		}
	}
	return e
}

// commandFollows ends our own flags at the first word, a box or a command: what comes after it is
// the command's, flags included. Where a -- says the same, our flags may stand behind the box's
// name, too.
func (a *app) commandFollows() *int {
	if a.command != nil {
		return nil
	}
	first := 1
	return &first
}

// withoutDashes is a command whose words follow ours without a --. No program is called as a flag
// is: one that begins so was to be ours.
func withoutDashes(verb string, argv []string) ([]string, error) {
	if len(argv) > 0 && strings.HasPrefix(argv[0], "-") {
		return nil, agentbox.Errorf(agentbox.Invalid, "no command before %s", argv[0]).
			WithHint("flags of agentbox stand before the box's name: agentbox %s --help; a command of this name, behind --", verb)
	}
	return argv, nil
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

// unknown is the error for a word that is no command of cmd, with the one that may have been meant.
func unknown(cmd *cli.Command, name string) error {
	err := agentbox.Errorf(agentbox.Invalid, "%q is not a command of %s", name, cmd.FullName()).WithHint("%s --help lists them", cmd.FullName())
	if near := cli.SuggestCommand(cmd.VisibleCommands(), name); alike(name, near) {
		err.Hint = "did you mean `" + cmd.FullName() + " " + near + "`?"
	}
	return err
}

// alike tells whether a word may be another one mistyped: the library suggests the nearest, however
// far. A third of the word may be wrong; beyond that a suggestion is noise.
func alike(word, near string) bool {
	return near != "" && levenshtein.Distance(word, near, nil) <= max(1, len(near)/3)
}
