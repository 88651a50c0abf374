// Command agentbox-daemon is the daemon of a home. The command line carries it (agentbox/programs)
// and starts it as `agentbox daemon`; it is no program for people. The same program is `agentbox serve`,
// `agentbox ui` and `agentbox mcp`, in a process of their own.
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
	"agentbox/agentbox/kube/worker"
	"agentbox/agentbox/serve"
)

func main() { os.Exit(exitCode(run())) }

// run serves until it is told to stop. Its arguments are those of reach.Here.Program, and behind them
// those of cli/serve.go.
func run() error {
	if os.Args[1] == worker.Verb {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		os.Exit(worker.Main(ctx))
	}
	flags := flag.NewFlagSet("agentbox "+os.Args[1], flag.ContinueOnError)
	client := flags.String("client", "", "path of the program that users run")
	build := flags.String("build", "", "identifies the build of that program")
	door := serve.Config{Out: os.Stdout}
	flags.StringVar(&door.Listen, "listen", "", "address")
	flags.Func("name", "name of this machine", func(name string) error { door.Names = append(door.Names, name); return nil })
	flags.StringVar(&door.Cert, "tls-cert", "", "file")
	flags.StringVar(&door.Key, "tls-key", "", "file")
	flags.StringVar(&door.E2B, "e2b", "", "checkout that sandboxes are made of")
	scope := flags.String("scope", "", "what an MCP client may do")
	flags.BoolVar(&door.Quiet, "quiet", false, "print the address only")
	if err := flags.Parse(os.Args[2:]); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	h, err := home.Find()
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	door.Socket, door.Client, door.Log, door.Page = h.Socket(), *client, log, os.Args[1] == "ui"
	door.Version = *build
	switch os.Args[1] {
	case "mcp":
		return serve.Stdio(ctx, door, api.Scope(*scope))
	case "serve", "ui":
		return serve.Run(ctx, door)
	}
	pool, err := daemon.PoolFromEnv()
	if err == nil {
		err = daemon.LogInAtProxy(ctx)
	}
	if err != nil {
		return err
	}
	return daemon.Run(ctx, daemon.Config{Home: h, Client: *client, Version: *build, Pool: pool, Log: log})
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
