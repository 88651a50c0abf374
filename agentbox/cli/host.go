package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/daemon"
	"agentbox/agentbox/supervisor"
)

// exitDaemonRuns is the daemon's exit code when another one serves the home.
const exitDaemonRuns = 3

func (a *app) daemonCommand() *cli.Command {
	return &cli.Command{
		Name: "daemon", Category: catHost, Usage: "serve this home; starts by itself when it is needed",
		Action: func(ctx context.Context, _ *cli.Command) error {
			pool, err := daemon.PoolFromEnv()
			if err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(a.stderr, nil))
			err = daemon.Run(ctx, daemon.Config{Home: a.home, Version: buildID(), Pool: pool, Log: log})
			if errors.Is(err, daemon.ErrRunning) {
				fmt.Fprintln(a.stderr, "agentbox:", err)
				return exit(exitDaemonRuns)
			}
			return err
		},
		Commands: []*cli.Command{
			{Name: "status", Usage: "say what runs", Action: a.daemonStatus},
			{Name: "stop", Usage: "stop the daemon; boxes go on", Action: a.daemonStop},
		},
	}
}

func (a *app) daemonStatus(ctx context.Context, _ *cli.Command) error {
	client := api.NewClient(a.home.Socket())
	defer client.Close()
	st, err := api.Call(ctx, client, api.Status, api.None{}, nil)
	switch {
	case err != nil:
		return agentbox.Errorf(agentbox.Unavailable, "no daemon runs for %s", a.home.Dir).WithHint("it starts by itself when it is needed")
	case a.json:
		return a.printJSON(st)
	}
	fmt.Fprintf(a.stdout, "daemon %s, process %d, up %s, home %s, %d boxes, %d machines in the pool\n",
		st.Version, st.PID, agoText(st.Started), st.Home, st.Boxes, st.Pool)
	return nil
}

func (a *app) daemonStop(ctx context.Context, _ *cli.Command) error {
	client := api.NewClient(a.home.Socket())
	defer client.Close()
	st, err := api.Call(ctx, client, api.Status, api.None{}, nil)
	if err != nil {
		return nil // none runs, which is what was asked for
	}
	return a.stopDaemon(ctx, client, st.PID)
}

func (a *app) superviseCommand() *cli.Command {
	return &cli.Command{
		Name: supervisor.Verb, Hidden: true, Usage: "run one box; the daemon starts this",
		Action: func(ctx context.Context, _ *cli.Command) error { return supervisor.Main(ctx, a.stdin) },
	}
}

func (a *app) pruneCommand() *cli.Command {
	var req api.PruneRequest
	return &cli.Command{
		Name: "prune", Category: catHost, Usage: "remove what no box needs",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "dry-run", Usage: "only say what would go", Destination: &req.DryRun}},
		Action: func(ctx context.Context, _ *cli.Command) error {
			resp, err := call(ctx, a, api.Prune, req)
			switch {
			case err != nil:
				return err
			case a.json:
				return a.printJSON(resp.Items)
			}
			var total int64
			rows := [][]string{{"KIND", "NAME", "SIZE", "WHY"}}
			for _, item := range resp.Items {
				total += item.Bytes
				rows = append(rows, []string{item.Kind, item.Name, bytesText(item.Bytes), item.Why})
			}
			if len(resp.Items) > 0 {
				if err := a.table(rows); err != nil {
					return err
				}
			}
			verb := "freed"
			if req.DryRun {
				verb = "would free"
			}
			fmt.Fprintf(a.stdout, "%s %s\n", verb, bytesText(total))
			return nil
		},
	}
}

func (a *app) doctorCommand() *cli.Command {
	var req api.DoctorRequest
	return &cli.Command{
		Name: "doctor", Category: catHost, Usage: "say what works here, what does not, and what to do",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "probe", Usage: "find out again what this machine can do", Destination: &req.Probe}},
		Action: func(ctx context.Context, _ *cli.Command) error {
			req.Isolation = agentbox.Isolation(os.Getenv("AGENTBOX_ISOLATION"))
			report, err := call(ctx, a, api.Doctor, req)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(report)
			}
			failed := 0
			for _, c := range report.Checks {
				mark := "ok  "
				if !c.OK {
					mark, failed = "FAIL", failed+1
				}
				fmt.Fprintf(a.stdout, "%s  %-10s  %s\n", mark, c.Name, oneLine(c.Detail))
				if c.Hint != "" {
					fmt.Fprintf(a.stdout, "      %-10s  hint: %s\n", "", oneLine(c.Hint))
				}
			}
			if failed > 0 {
				return exit(1)
			}
			return nil
		},
	}
}
