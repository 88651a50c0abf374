package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/reach"
)

// Exit codes are the same as Docker's, so that scripts for `docker run` work. All other codes are
// those of the command in the box, which may also exit with one of ours: standard error then tells
// which it was.
const (
	exitOK      = 0
	exitTimeout = 124 // run --timeout, as in timeout(1)
	exitFailed  = 125 // agentbox itself failed
)

// app is one run of the program: the flags that all verbs share, and the streams. The fields are
// set before a verb's Action runs and do not change afterwards.
type app struct {
	// here is set before the first Action: the daemon of AGENTBOX_HOME, or the user's default.
	here reach.Here
	// host is the name of the machine that is meant instead; see there.
	host      string
	findHost  sync.Once
	hostFound reach.There
	hostErr   error
	brought   *agentbox.SourceRef // see checkout
	args      []string            // our own arguments, before --
	command   []string            // the arguments after --; nil without a --
	// stdin and stderr are files, because it matters whether they are terminals. stdout may be any
	// writer in a test.
	stdin  *os.File
	stdout io.Writer
	stderr *os.File
	quiet  bool
	json   bool
}

// exit ends the program with the status of a command that ran in a box. It is an error so that it
// ends the verb on every return path. It is not a failure of ours, so finish prints nothing for it.
type exit int

// Error is for logs and tests; finish does not print it.
func (e exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// Main runs the program and returns its exit code. It never calls os.Exit, so that all deferred
// calls run.
//
// SIGINT, SIGTERM or SIGHUP cancels the context. That ends calls to the daemon, which cancels them
// there. A verb that runs a command in a box handles signals itself from then on (runIn).
func Main(args []string, stdin, stdout, stderr *os.File) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	a.args, a.command = splitCommand(args)
	if slices.Contains(a.command, completionFlag) {
		return exitOK // the user pressed TAB in a box's command line: run nothing
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return a.finish(a.root().Run(ctx, a.args))
}

// Commands is the tree of all commands, for what documents them. It must not be run.
func Commands() *cli.Command {
	a := &app{}
	return a.tree(a.verbs())
}

// splitCommand separates our own arguments from those after the first --. command is nil without a
// --. It runs before the library parses anything, because a flag after -- belongs to the command,
// whatever its name.
func splitCommand(args []string) (ours, command []string) {
	i := slices.Index(args, "--")
	if i < 0 {
		return args, nil
	}
	return args[:i], append([]string{}, args[i+1:]...)
}

// finish is the only place where errors become text and exit codes.
func (a *app) finish(err error) int {
	var status exit
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &status):
		return int(status)
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(a.stderr, "agentbox: interrupted")
		return exitFailed
	}
	e := agentbox.AsError(err)
	fmt.Fprintf(a.stderr, "agentbox: %s\n", oneLine(errorText(err)))
	if e.Hint != "" {
		fmt.Fprintf(a.stderr, "hint: %s\n", oneLine(e.Hint))
	}
	return exitFailed
}

// root returns the program, made strict about its command line. Each run makes a new tree, because
// flags are bound to variables of their verb. If the first word is a verb, it is the only one in the
// tree: the library sets up every command that it is given, which takes longer than most verbs.
func (a *app) root() *cli.Command {
	verbs := a.verbs()
	first := a.firstWord()
	if i := slices.IndexFunc(verbs, func(v verb) bool { return v.name == first }); i >= 0 {
		verbs = verbs[i : i+1]
	}
	root := a.tree(verbs)
	a.strict(root)
	return root
}

// firstWord is the word that names the verb: the first that is neither a global flag nor the value of
// one. It is "" if there is none.
func (a *app) firstWord() string {
	for i := 1; i < len(a.args); i++ {
		switch arg := a.args[i]; {
		case arg == "--host":
			i++
		case !strings.HasPrefix(arg, "-"):
			return arg
		}
	}
	return ""
}

// tree has the verbs and the global flags. Before finds the home, so that even a verb that needs
// none, such as version, fails early if AGENTBOX_HOME is invalid. ExitErrHandler does nothing,
// because the library would print errors and exit by itself.
func (a *app) tree(verbs []verb) *cli.Command {
	commands := make([]*cli.Command, len(verbs))
	for i, v := range verbs {
		commands[i] = v.command()
	}
	return &cli.Command{
		Name:  "agentbox",
		Usage: "isolated, resettable workstations for coding agents",
		UsageText: `agentbox up                  create the box of this repository and branch, and open a shell in it
agentbox up -- make test     the same, but run a command instead of the shell
agentbox run -- CMD...       run one command in a new box, and remove the box afterwards`,
		Description: `BOX is a box's name, its ID or the beginning of its ID. Without it, commands mean the box of this directory and branch.
A box starts when a command needs it. AGENTBOX_HOME is the directory with all state (default: ~/.local/share/agentbox).
The exit code is that of the command in the box, or: 124 a limit ended it, 125 agentbox failed, 126 the command could not
be invoked, 127 it was not found.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print only IDs, and no progress", Destination: &a.quiet},
			&cli.BoolFlag{Name: "json", Usage: "print results as JSON", Destination: &a.json},
			&cli.StringFlag{Name: "host", Usage: "work on the machine `HOST` (see host add)", Sources: cli.EnvVars(hostEnv), Destination: &a.host},
		},
		Before: func(ctx context.Context, cmd *cli.Command) (context.Context, error) {
			var err error
			if a.here, err = reach.Find(buildID()); err == nil {
				a.findLima(ctx, cmd.Command(a.firstWord()))
			}
			return ctx, err
		},
		Commands:               commands,
		Suggest:                true,
		HideVersion:            true,
		EnableShellCompletion:  true,
		UseShortOptionHandling: false,
		Reader:                 a.stdin,
		Writer:                 a.stdout,
		ErrWriter:              a.stderr,
		ExitErrHandler:         func(context.Context, *cli.Command, error) {},
		Action: func(_ context.Context, cmd *cli.Command) error {
			return cli.ShowRootCommandHelp(cmd)
		},
		ConfigureShellCompletionCommand: a.completionCommand,
	}
}

// The headings of the help.
const (
	catBox       = "boxes"
	catInside    = "inside a box"
	catLifecycle = "states of a box"
	catHost      = "this machine"
	catFaces     = "for other programs"
	catPolicy    = "what boxes may do"
)

// verb is a command by its name, which is made only if it is needed.
type verb struct {
	name    string
	command func() *cli.Command
}

func (a *app) verbs() []verb {
	return []verb{
		// These make, find and remove boxes, and run commands in boxes of their own.
		{"up", a.upCommand}, {"agent", a.agentCommand}, {"run", a.runCommand}, {"task", a.taskCommand}, {"artifact", a.artifactCommand},
		{"ls", a.lsCommand}, {"show", a.showCommand}, {"top", a.topCommand}, {"rm", a.rmCommand},
		// These work inside a box.
		{"enter", a.enterCommand}, {"push", a.pushCommand}, {"exec", a.execCommand}, {"attach", a.attachCommand}, {"jobs", a.jobsCommand}, {"shell", a.shellCommand}, {"cp", a.cpCommand},
		{"diff", a.diffCommand}, {"pull", a.pullCommand}, {"check", a.checkCommand}, {"logs", a.logsCommand}, {"ports", a.portsCommand}, {"code", a.codeCommand}, {"ssh", a.sshCommand},
		{"ssh-config", a.sshConfigCommand},
		// These move a box from one state to another.
		{"pause", a.pauseCommand}, {"resume", a.resumeCommand}, {"reset", a.resetCommand}, {"fork", a.forkCommand},
		{"checkpoint", a.checkpointCommand}, {"rollback", a.rollbackCommand}, {"snapshot", a.snapshotCommand}, {"identity", a.identityCommand},
		// These control what boxes may do and which secrets they may use.
		{"policy", a.policyCommand}, {"secret", a.secretCommand},
		// These let other programs and a browser use boxes.
		{"serve", a.serveCommand}, {"mcp", a.mcpCommand}, {"ui", a.uiCommand}, {"token", a.tokenCommand},
		// These are about this machine rather than one box.
		{"init", a.initCommand}, {"host", a.hostCommand}, {"image", a.imageCommand}, {"cache", a.cacheCommand}, {"mesh", a.meshCommand}, {"idle", a.idleCommand}, {"project", a.projectCommand}, {"lima", a.limaCommand}, {"service", a.serviceCommand},
		{"prune", a.pruneCommand}, {"doctor", a.doctorCommand}, {"bench", a.benchCommand}, {"daemon", a.daemonCommand}, {"version", a.versionCommand},
		// Other programs run these: ssh and git. They are no part of the contract with
		// users, and may change with any build.
		{proxyVerb, a.sshProxyCommand}, {"git-serve", a.gitServeCommand},
	}
}
