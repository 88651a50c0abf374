package cli

import (
	"cmp"
	"context"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agext/levenshtein"
	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/policy"
)

// arguments is the number of words that a verb accepts before the --. what and hint explain a wrong
// number; without what, the error names the first surplus word.
type arguments struct {
	least, most int
	what, hint  string
}

// unbounded means no upper bound.
const unbounded = math.MaxInt

// argumentsBy maps the usage text of a verb to its arguments. A verb whose text is not in it checks
// its arguments itself.
var argumentsBy = map[string]arguments{
	"":                                 {},
	"[BOX]":                            {most: 1},
	"[SIZE|off]":                       {most: 1},
	"[BOX|TASK]":                       {most: 1},
	"[BOX] [JOB]":                      {most: 2},
	"TASK":                             {1, 1, "one task", "agentbox task ls lists them"},
	"[TASK...]":                        {most: unbounded},
	"TASK...":                          {1, unbounded, "tasks", "agentbox task ls lists them"},
	"TASK [FILE...]":                   {1, unbounded, "a task", "agentbox task ls lists them"},
	"JOB...":                           {1, unbounded, "jobs", "agentbox jobs lists them"},
	"IMAGE":                            {1, 1, "one image", "agentbox image ls lists them"},
	"IMAGE...":                         {1, unbounded, "images", "agentbox image ls lists them"},
	"SNAPSHOT":                         {1, 1, "one snapshot", "agentbox snapshot ls lists them"},
	"SNAPSHOT [EARLIER]":               {1, 2, "a snapshot, and an earlier one", "agentbox snapshot ls lists them"},
	"SNAPSHOT...":                      {1, unbounded, "snapshots", "agentbox snapshot ls lists them"},
	"BOX|TASK BOX|TASK":                {2, 2, "two boxes or tasks", "agentbox enter lists them"},
	"OLD NEW":                          {2, 2, "two reports", "agentbox bench --json FILE writes one"},
	"IMAGE DIRECTORY":                  {2, 2, "an image and a directory", "agentbox image ls lists the images"},
	"PATH":                             {1, 1, "one path", "for example: agentbox image import image.tar"},
	"DIGEST|KEY|NAME":                  {1, 1, "one digest or name", "agentbox cache ls lists them"},
	"DIGEST|KEY|NAME|IMAGE":            {1, 1, "one digest or name", "agentbox cache ls lists them"},
	"SCHEDULE":                         {1, 1, "one schedule", "agentbox task schedule ls lists them"},
	"TOKEN":                            {1, 1, "one token", "agentbox mesh invite on a machine of the team prints one"},
	"claude|codex|gemini":              {1, 1, "one of claude, codex, gemini", "for example: agentbox mcp install claude"},
	"SERVER":                           {1, 1, "one MCP server", "agentbox mcp ls lists them"},
	"ID|NAME":                          {1, 1, "one token", "agentbox token ls lists them"},
	"PEER|NAME":                        {1, 1, "one machine", "agentbox mesh peers lists them"},
	"URL|HOST[:PORT]":                  {1, 1, "one URL", "for example: agentbox policy check https://example.com/"},
	"RULE...":                          {1, unbounded, "at least one rule", "for example: agentbox policy allow example.com"},
	"PRESET":                           {1, 1, "one of " + strings.Join(policy.Presets, ", ") + ", none", "agentbox policy show prints the current one"},
	"[DIGEST]":                         {0, 1, "one digest", "agentbox policy show prints it"},
	"NAME":                             {1, 1, "one name", "agentbox secret ls lists them; agentbox secret set API_TOKEN --from env:API_TOKEN --to https://api.example.com sets one"},
	"HOST":                             {1, 1, "one host", "agentbox host ls lists them"},
	"HOST ssh://[USER@]MACHINE[:PORT]": {2, 2, "a name and a machine", "for example: agentbox host add gpu ssh://me@gpu.example.com"},
}

func (a *app) argumentsOf(cmd *cli.Command) arguments {
	if a.command != nil && strings.HasPrefix(cmd.ArgsUsage, "-- ") {
		return arguments{} // the command is after it
	}
	if of, ok := argumentsBy[cmd.ArgsUsage]; ok {
		return of
	}
	return arguments{most: unbounded}
}

// strict makes a command and its subcommands check every word of their command line. A mistyped
// flag yields the same two lines as any other error, rather than a page of help. Surplus words,
// before or after --, are errors and not silently dropped.
func (a *app) strict(cmd *cli.Command) {
	cmd.OnUsageError = a.usageError
	for _, f := range cmd.Flags {
		hideZero(f)
	}
	cmd.DisableSliceFlagSeparator = true // a comma in the value of a variable is part of it
	action, group := cmd.Action, len(cmd.Commands) > 0
	cmd.Action = func(ctx context.Context, cmd *cli.Command) error {
		n, of := cmd.Args().Len(), a.argumentsOf(cmd)
		switch {
		// In order: an unknown subcommand; a group without one; too few or too many words; a --
		// where no command is run.
		case group && cmd.ArgsUsage == "" && cmd.Args().Present():
			return unknownCommandError(cmd, cmd.Args().First())
		case group && action == nil:
			return cli.ShowSubcommandHelp(cmd)
		case n < of.least, n > of.most && of.what != "":
			return agentbox.Errorf(agentbox.Invalid, "%s takes %s", strings.TrimPrefix(cmd.FullName(), "agentbox "), of.what).WithHint("%s", of.hint)
		case n > of.most:
			return agentbox.Errorf(agentbox.Invalid, "%s takes no argument %q", cmd.Name, cmd.Args().Get(of.most)).WithHint("%s --help", cmd.FullName())
		case a.command != nil && !strings.Contains(cmd.ArgsUsage, "-- "):
			return agentbox.Errorf(agentbox.Invalid, "%s runs no command, so it accepts nothing after --", cmd.Name).WithHint("leave out the --; see %s --help", cmd.FullName())
		}
		if err := cmp.Or(checkNumbers(cmd), a.checkHere(cmd)); err != nil {
			return err
		}
		return action(ctx, cmd)
	}
	for _, sub := range cmd.Commands {
		a.strict(sub)
	}
}

// hideZero keeps the help from showing a zero as the default of a number or a time: to the program
// it means that the flag was not given, and as a value it would be refused.
func hideZero(f cli.Flag) {
	switch f := f.(type) {
	case *cli.IntFlag:
		f.HideDefault = f.HideDefault || f.Value == 0
	case *cli.Int64Flag:
		f.HideDefault = f.HideDefault || f.Value == 0
	case *cli.FloatFlag:
		f.HideDefault = f.HideDefault || f.Value == 0
	case *cli.DurationFlag:
		f.HideDefault = f.HideDefault || f.Value == 0
	}
}

// variables is the flag for environment variables. The help shows its form once and says that it
// may be repeated, where the library would write every form twice.
type variables struct{ *cli.StringMapFlag }

func (variables) IsMultiValueFlag() bool { return false }

func (v variables) String() string { return cli.FlagStringer(v) }

func envFlag(dest *map[string]string) cli.Flag {
	return variables{&cli.StringMapFlag{
		Name: "env", Aliases: []string{"e"}, Usage: "set `NAME=VALUE` for the command; can be repeated", Destination: dest,
	}}
}

// examples maps the flags whose value must be above 0 to an example of a value. Their names mean
// the same in every verb that has them.
var examples = map[string]string{
	"timeout": "90s, 15m or 1h30m", "idle": "90s, 15m or 1h30m", "cpu-time": "90s, 15m or 1h30m",
	"max-cost": "0.10", "batch-cost": "5", "max-tokens": "100000", "cpus": "2", "parallel": "4",
}

// checkNumbers refuses flags of a command line that must be above 0 and are not. To the daemon, 0
// is a flag that was not given: a task that should end at once would run without a limit. A
// configuration refuses 0 for the same reason. Upper bounds are checked by the daemon.
func checkNumbers(cmd *cli.Command) error {
	for _, name := range slices.Sorted(maps.Keys(examples)) {
		if !cmd.IsSet(name) {
			continue
		}
		ok := false
		switch v := cmd.Value(name).(type) {
		case time.Duration:
			ok = v > 0
		case float64:
			ok = v > 0 && !math.IsInf(v, 0)
		case int64:
			ok = v > 0
		case int:
			ok = v > 0
		}
		if !ok {
			return agentbox.Errorf(agentbox.Invalid, "--%s %v is not above 0", name, cmd.Value(name)).
				WithHint("write it as %s, or leave it out for the default", examples[name])
		}
	}
	return nil
}

// undefinedFlag is how the library's error for an unknown flag begins. That error has no type. If a
// new version words it differently, only the suggestion is lost.
const undefinedFlag = "flag provided but not defined: "

// invalidDuration is the library's error for a flag whose value is not a duration: the value,
// quoted, and the flag. As with undefinedFlag, only the wording is lost if a new version words it
// differently.
var invalidDuration = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^invalid value (".*") for flag -(\S+): time: `) })

// usageError turns a mistake on the command line into one of our errors: what is wrong, and what
// the user may have meant.
func (a *app) usageError(_ context.Context, cmd *cli.Command, err error, _ bool) error {
	e := agentbox.Errorf(agentbox.Invalid, "%w", err).WithHint("%s --help", cmd.FullName())
	if m := invalidDuration().FindStringSubmatch(err.Error()); m != nil {
		e = agentbox.Errorf(agentbox.Invalid, "%s: %s is not a duration", flagText(m[2]), m[1]).WithHint("write it as 90s, 15m or 1h30m")
	}
	if name, ok := strings.CutPrefix(err.Error(), undefinedFlag); ok {
		name = strings.TrimLeft(name, "-")
		e = agentbox.Errorf(agentbox.Invalid, "%s has no flag %s", cmd.Name, flagText(name)).WithHint("%s --help lists them", cmd.FullName())
		if near := cli.SuggestFlag(flagsOf(cmd), name, false); similar(name, strings.TrimLeft(near, "-")) {
			e.Hint = "did you mean " + near + "?"
		}
	}
	return e
}

// commandFollows ends our own flags at the first word, a box or a command: all words after it
// belong to the command, including flags. With a --, our flags may also follow the box's name.
func (a *app) commandFollows() *int {
	if a.command != nil {
		return nil
	}
	first := 1
	return &first
}

// checkFirstWord refuses a command that follows our own words without a -- and begins with a dash.
// Such a word must have been meant as a flag of ours, because hardly any program has such a name.
func checkFirstWord(verb string, argv []string) error {
	if len(argv) == 0 || !strings.HasPrefix(argv[0], "-") {
		return nil
	}
	return agentbox.Errorf(agentbox.Invalid, "no command before %s", argv[0]).
		WithHint("put flags of agentbox before the box's name (agentbox %s --help), or -- before a command of this name", verb)
}

func flagText(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// flagsOf returns the flags that a command understands: its own, and the global ones.
func flagsOf(cmd *cli.Command) []cli.Flag {
	flags := append([]cli.Flag{}, cmd.Flags...)
	if root := cmd.Root(); root != cmd {
		flags = append(flags, root.Flags...)
	}
	return flags
}

// unknownCommandError returns the error for a word that is no command of cmd, with the one that the
// user may have meant.
func unknownCommandError(cmd *cli.Command, name string) error {
	err := agentbox.Errorf(agentbox.Invalid, "%q is not a command of %s", name, cmd.FullName()).WithHint("%s --help lists them", cmd.FullName())
	if near := cli.SuggestCommand(cmd.VisibleCommands(), name); similar(name, near) {
		err.Hint = "did you mean `" + cmd.FullName() + " " + near + "`?"
	}
	return err
}

// similar reports whether a word may be a mistyped form of near. The library suggests the nearest
// word, however different. At most a third of the word may differ; beyond that, a suggestion is
// noise.
func similar(word, near string) bool {
	return near != "" && levenshtein.Distance(word, near, nil) <= max(1, len(near)/3)
}
