// Command agentbox-daemon is the daemon of a home. The command line carries it (agentbox/programs)
// and starts it as `agentbox daemon`; it is no program for people.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/daemon"
	"agentbox/agentbox/home"
)

func main() { os.Exit(exitCode(run())) }

// run serves until it is told to stop. Its arguments are those of cli/host.go.
func run() error {
	flags := flag.NewFlagSet("agentbox daemon", flag.ContinueOnError)
	client := flags.String("client", "", "path of the program that users run")
	build := flags.String("build", "", "identifies the build of that program")
	if err := flags.Parse(os.Args[2:]); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	h, err := home.Find()
	if err != nil {
		return err
	}
	pool, err := daemon.PoolFromEnv()
	if err != nil {
		return err
	}
	return daemon.Run(ctx, daemon.Config{Home: h, Client: *client, Version: *build, Pool: pool, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
}

// exitCode reports an error as the command line does.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	e := agentbox.AsError(err)
	fmt.Fprintln(os.Stderr, "agentbox:", e.Message)
	if e.Hint != "" {
		fmt.Fprintln(os.Stderr, "hint:", e.Hint)
	}
	if errors.Is(err, daemon.ErrRunning) {
		return api.ExitDaemonRuns
	}
	return 125
}
