package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
)

// Exit codes, as Docker's, so that scripts for `docker run` read them rightly. Everything else is
// the command's own, and cannot be told from ours by the code alone: what failed is on standard
// error.
const (
	exitOK      = 0
	exitTimeout = 124 // run --timeout, as timeout(1)
	exitFailed  = 125 // agentbox itself failed
)

// app is one run of the program: what stands on the command line for every verb, and the streams.
// The fields are set before a verb's Action runs and do not change afterwards.
type app struct {
	// home is found before the first Action: AGENTBOX_HOME, or the user's own.
	home    home.Home
	args    []string // our own arguments, what came before --
	command []string // what came after --; nil when there was no --
	// stdin and stderr are files, as it matters whether they are terminals; stdout may be any
	// writer in a test.
	stdin  *os.File
	stdout io.Writer
	stderr *os.File
	quiet  bool
	json   bool
}

// exit ends the program with the status of a command that ran in a box. It is an error so that
// every return on the way up ends the verb; it is no failure of ours, and finish prints nothing for
// it.
type exit int

// Error is for logs and tests; finish prints none.
func (e exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// Main runs the program and returns its exit code. It never calls os.Exit, so that whatever is
// deferred is done.
//
// An interrupt, TERM or HUP ends the context: calls to the daemon are hung up, which cancels them
// there. A verb that runs a command in a box takes signals for itself from then on (runIn).
func Main(args []string, stdin, stdout, stderr *os.File) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	a.args, a.command = splitCommand(args)
	if slices.Contains(a.command, completionFlag) {
		return exitOK // somebody pressed TAB in a command of a box: nothing of it may run
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return a.finish(a.root().Run(ctx, a.args))
}

// splitCommand parts our own arguments from what comes after the first --, which is nil when there
// is none. It is done before the library parses anything, since a flag behind -- is the command's,
// whatever its name.
func splitCommand(args []string) (ours, command []string) {
	i := slices.Index(args, "--")
	if i < 0 {
		return args, nil
	}
	return args[:i], append([]string{}, args[i+1:]...)
}

// finish prints an error the way every error is printed, and turns it into an exit code. It is the
// one place where errors become text and codes.
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

// root is the program: every command, each answering for all of its command line. A new tree is
// made for each run, as flags are bound to variables of their verb.
func (a *app) root() *cli.Command {
	root := a.tree()
	a.strict(root)
	return root
}

// tree has the verbs and the flags that all of them take. Before finds the home, so that a verb
// that needs none, such as version, fails early as well when AGENTBOX_HOME makes no sense.
// ExitErrHandler does nothing: the library would print errors and exit by itself.
func (a *app) tree() *cli.Command {
	return &cli.Command{
		Name:  "agentbox",
		Usage: "isolated, resettable workstations for coding agents",
		UsageText: `agentbox up                  a box for this repository and branch, and a shell in it
agentbox up -- make test     the same, and a command instead of the shell
agentbox run -- CMD...       one command in a fresh box that is gone afterwards`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print ids only, and no progress", Destination: &a.quiet},
			&cli.BoolFlag{Name: "json", Usage: "print facts as JSON", Destination: &a.json},
		},
		Before: func(ctx context.Context, _ *cli.Command) (context.Context, error) {
			var err error
			a.home, err = home.Find()
			return ctx, err
		},
		Commands:               a.verbs(),
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
	catPolicy    = "what boxes may do"
)

// verbs are all commands, in the order of the help.
func (a *app) verbs() []*cli.Command {
	return []*cli.Command{
		// What makes, finds and removes boxes, and what is run in boxes of its own.
		a.upCommand(), a.agentCommand(), a.runCommand(), a.taskCommand(), a.artifactCommand(), a.lsCommand(), a.showCommand(), a.topCommand(), a.rmCommand(),
		// What reaches into a box.
		a.execCommand(), a.attachCommand(), a.jobsCommand(), a.shellCommand(), a.cpCommand(), a.diffCommand(), a.pullCommand(),
		a.logsCommand(), a.portsCommand(), a.sshCommand(), a.sshConfigCommand(),
		// What moves a box from one state to another.
		a.pauseCommand(), a.resumeCommand(), a.resetCommand(), a.forkCommand(), a.checkpointCommand(), a.rollbackCommand(),
		// What boxes may do, and which secrets they may use.
		a.policyCommand(), a.secretCommand(),
		// What is about this machine and not about one box.
		a.initCommand(), a.imageCommand(), a.cacheCommand(), a.meshCommand(), a.serviceCommand(), a.pruneCommand(), a.doctorCommand(), a.benchCommand(),
		a.daemonCommand(), a.versionCommand(),
		// What other programs run: our daemon, ssh, git. It is no part of what is promised to people, and
		// may change with any build.
		a.superviseCommand(), a.sshProxyCommand(), a.gitServeCommand(),
	}
}
