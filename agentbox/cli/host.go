package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/daemon"
	"agentbox/agentbox/supervisor"
)

// exitDaemonRuns is the daemon's exit code when another one serves the home. awaitDaemon goes by
// it, so it must be told from a daemon that fails.
const exitDaemonRuns = 3

// daemonCommand is `daemon`: without a word behind it, it serves until it is told to stop, in the
// foreground, as systemd and spawnDaemon start it. The three verbs below it ask or end the daemon
// that runs and, but for metrics, start none.
func (a *app) daemonCommand() *cli.Command {
	return &cli.Command{
		Name: "daemon", Category: catHost, Usage: "serve this home; starts by itself when it is needed",
		Action: func(ctx context.Context, _ *cli.Command) error {
			// Read here and not by Run, so that tests can say what they want.
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
			{Name: "metrics", Usage: "print its numbers in Prometheus' text format (AGENTBOX_METRICS=127.0.0.1:PORT serves them)", Action: a.daemonMetrics},
		},
	}
}

// daemonStatus is `daemon status`. It does not start a daemon: whether one runs is the question.
// --json is an api.DaemonStatus; --quiet the process id. Unavailable when none runs.
func (a *app) daemonStatus(ctx context.Context, _ *cli.Command) error {
	client := api.NewClient(a.home.Socket())
	defer client.Close()
	st, err := api.Call(ctx, client, api.Status, api.None{}, nil)
	if err != nil {
		return agentbox.Errorf(agentbox.Unavailable, "no daemon runs for %s", a.home.Dir).WithHint("it starts by itself when it is needed")
	}
	return a.report(facts{value: st, ids: []string{strconv.Itoa(st.PID)}, text: fmt.Sprintf("daemon %s, process %d, up %s, home %s, %s, %s in the pool",
		st.Version, st.PID, agoText(st.Started), st.Home, agentbox.PluralOf(st.Boxes, "box", "boxes"), agentbox.Plural(st.Pool, "machine"))})
}

// daemonMetrics is `daemon metrics`: the same text as the daemon's /metrics, for a machine without
// an address to serve it at.
func (a *app) daemonMetrics(ctx context.Context, _ *cli.Command) error {
	client, err := a.daemon(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Metrics(ctx, a.stdout)
}

// daemonStop is `daemon stop`. It returns when the process has ended; that none runs is what was
// asked for.
func (a *app) daemonStop(ctx context.Context, _ *cli.Command) error {
	client := api.NewClient(a.home.Socket())
	defer client.Close()
	// Its process id is what stopDaemon waits for.
	st, err := api.Call(ctx, client, api.Status, api.None{}, nil)
	if err != nil {
		return nil // none runs, which is what was asked for
	}
	return a.stopDaemon(ctx, client, st.PID)
}

// superviseCommand is the hidden verb of the process behind one box. The daemon starts it with its
// sockets, lock and template as open files (supervisor.Main), so nobody can run it by hand.
func (a *app) superviseCommand() *cli.Command {
	return &cli.Command{
		Name: supervisor.Verb, Hidden: true, Usage: "run one box; the daemon starts this",
		Action: func(ctx context.Context, _ *cli.Command) error { return supervisor.Main(ctx, a.stdin) },
	}
}

// pruneCommand is `prune`. Boxes are touched with --boxes only: there may be work in them. --json
// is a list of api.PruneItem; --quiet the names.
func (a *app) pruneCommand() *cli.Command {
	var req api.PruneRequest
	return &cli.Command{
		Name: "prune", Category: catHost, Usage: "remove what no box needs",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Usage: "only say what would go", Destination: &req.DryRun},
			&cli.BoolFlag{Name: "boxes", Usage: "also boxes whose directory or branch is gone, with the work in them", Destination: &req.Boxes},
		},
		Action: func(ctx context.Context, _ *cli.Command) error {
			return tell(ctx, a, api.Prune, req, func(r api.PruneResponse) facts {
				var freed int64
				for _, item := range r.Items {
					freed += item.Bytes
				}
				return removedFacts(r.Items, freed, req.DryRun)
			})
		},
	}
}

// removedFacts are what was removed and how much that freed, or would be: a dry run and a real one
// have the same table, so that both can be compared. There is none where nothing goes.
func removedFacts(items []api.PruneItem, freed int64, dryRun bool) facts {
	f := listed(items, []string{"KIND", "NAME", "SIZE", "WHY"}, func(item api.PruneItem) (string, []string) {
		return item.Name, []string{item.Kind, item.Name, bytesText(item.Bytes), item.Why}
	})
	if len(items) == 0 {
		f.table = nil
	}
	if f.text = "freed " + bytesText(freed); dryRun {
		f.text = "would free " + bytesText(freed)
	}
	return f
}

// doctorCommand is `doctor`: a line for each check, and exit code 1 if one failed, in every format.
// Our environment decides what auto means, not the one that the daemon was started in. --json is an
// api.DoctorReport.
func (a *app) doctorCommand() *cli.Command {
	var req api.DoctorRequest
	return &cli.Command{
		Name: "doctor", Category: catHost, Usage: "say what works here, what does not, and what to do",
		Description: "Ends with exit code 1 when a check failed.",
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "probe", Usage: "find out again what this machine can do", Destination: &req.Probe}},
		Action: func(ctx context.Context, _ *cli.Command) error {
			req.Isolation = agentbox.Isolation(os.Getenv("AGENTBOX_ISOLATION"))
			report, err := call(ctx, a, api.Doctor, req)
			if err == nil {
				err = a.printChecks(report)
			}
			if err == nil && slices.ContainsFunc(report.Checks, func(c api.Check) bool { return !c.OK }) {
				err = exit(1)
			}
			return err
		},
	}
}

// printChecks prints every check, with a hint below one that failed.
func (a *app) printChecks(report api.DoctorReport) error {
	if a.json {
		return a.printJSON(report)
	}
	for _, c := range report.Checks {
		mark := "ok  "
		if !c.OK {
			mark = "FAIL"
		}
		fmt.Fprintf(a.stdout, "%s  %-11s  %s\n", mark, c.Name, oneLine(c.Detail))
		if c.Hint != "" {
			fmt.Fprintf(a.stdout, "      %-11s  hint: %s\n", "", oneLine(c.Hint))
		}
	}
	return nil
}
