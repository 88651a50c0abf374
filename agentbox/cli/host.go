package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// daemonCommand is `daemon`. Without a subcommand it serves in the foreground until it is told to
// stop, which is how systemd and spawnDaemon start it. The three subcommands query or end the
// running daemon; only metrics starts one.
func (a *app) daemonCommand() *cli.Command {
	return &cli.Command{
		Name: "daemon", Category: catHost, Usage: "run the daemon of this home; other commands start it when they need it",
		Action: func(context.Context, *cli.Command) error {
			return a.become("daemon")
		},
		Commands: []*cli.Command{
			{Name: "status", Usage: "show whether the daemon runs", Action: a.daemonStatus},
			{Name: "start", Usage: "start the daemon if none runs", Action: a.daemonStart},
			{Name: "stop", Usage: "stop the daemon; boxes keep running", Action: a.daemonStop},
			a.daemonLogCommand(),
			{Name: "metrics", Usage: "print metrics in the Prometheus text format (AGENTBOX_METRICS=127.0.0.1:PORT serves them)", Action: a.daemonMetrics},
		},
	}
}

// become makes this process the daemon's program, for who watches it: systemd, for example.
func (a *app) become(verb string, more ...string) error {
	program, args, err := a.here.Program(verb)
	if err != nil {
		return err
	}
	return agentbox.Errorf(agentbox.Missing, "cannot run %s: %w", program, syscall.Exec(program, append(args, more...), os.Environ()))
}

// daemonStatus is `daemon status`. It does not start a daemon, because the question is whether one
// runs. --json prints an api.DaemonStatus; --quiet the process ID. The error is Unavailable if none
// runs, and that of the call if the daemon cannot be reached for another reason.
func (a *app) daemonStatus(ctx context.Context, _ *cli.Command) error {
	m, err := a.machine()
	if err != nil {
		return err
	}
	st, err := m.Status(ctx)
	if err != nil {
		return err
	}
	return a.report(statusFacts(st))
}

// daemonStart is `daemon start`. --json and --quiet print what daemon status does.
func (a *app) daemonStart(ctx context.Context, _ *cli.Command) error {
	return callAndReport(ctx, a, api.Status, api.None{}, statusFacts)
}

func statusFacts(st api.DaemonStatus) facts {
	return facts{value: st, ids: []string{strconv.Itoa(st.PID)}, text: fmt.Sprintf("daemon %s, process %d, up %s, home %s, %s, %s in the pool",
		st.Version, st.PID, agoText(st.Started), st.Home, agentbox.PluralOf(st.Boxes, "box", "boxes"), agentbox.Plural(st.Pool, "machine"))}
}

// daemonMetrics is `daemon metrics`: the same text as at the daemon's /metrics, for a machine
// without an address to serve it at.
func (a *app) daemonMetrics(ctx context.Context, _ *cli.Command) error {
	client, err := a.daemon(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Metrics(ctx, a.stdout)
}

// daemonLogCommand is `daemon log`. It works without a daemon: the log then says why.
func (a *app) daemonLogCommand() *cli.Command {
	var l logs
	return &cli.Command{
		Name: "log", Usage: "print the daemon's log",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "keep printing until interrupted", Destination: &l.follow},
			&cli.IntFlag{Name: "tail", Aliases: []string{"n"}, Usage: "print only the last `N` lines, and what follows", DefaultText: "everything", Value: -1, Destination: &l.tail},
		},
		Action: func(ctx context.Context, _ *cli.Command) error {
			m, err := a.machine()
			if err == nil {
				err = m.Log(ctx, l.request(), a.stdout)
			}
			if l.follow && ctx.Err() != nil {
				return nil
			}
			return err
		},
	}
}

// daemonStop is `daemon stop`. It returns when the process has ended. If none runs, it succeeds.
func (a *app) daemonStop(ctx context.Context, _ *cli.Command) error {
	m, err := a.machine()
	if err != nil {
		return err
	}
	return m.Stop(ctx)
}

// pruneCommand is `prune`. It removes boxes only with --boxes, because there may be work in them.
// --json prints a list of api.PruneItem; --quiet the names.
func (a *app) pruneCommand() *cli.Command {
	var req api.PruneRequest
	return &cli.Command{
		Name: "prune", Category: catHost, Usage: "remove what no box needs",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Usage: "show what would be removed, but remove nothing", Destination: &req.DryRun},
			&cli.BoolFlag{Name: "boxes", Usage: "also remove boxes whose directory or branch is gone, including the work in them", Destination: &req.Boxes},
		},
		Action: func(ctx context.Context, _ *cli.Command) error {
			return callAndReport(ctx, a, api.Prune, req, func(r api.PruneResponse) facts {
				var freed int64
				for _, item := range r.Items {
					freed += item.Bytes
				}
				return removedFacts(r.Items, freed, req.DryRun)
			})
		},
	}
}

// removedFacts returns what was, or would be, removed and how much space that frees. A dry run has
// the same table as a real one, so that the two can be compared. Without items there is no table.
func removedFacts(items []api.PruneItem, freed int64, dryRun bool) facts {
	f := listed(items, []string{"KIND", "NAME", "SIZE", "WHY"}, func(item api.PruneItem) (string, []string) {
		return item.Name, []string{item.Kind, item.Name, bytesText(item.Bytes), item.Reason}
	})
	if len(items) == 0 {
		f.table = nil
	}
	if f.text = "freed " + bytesText(freed); dryRun {
		f.text = "would free " + bytesText(freed)
	}
	return f
}

// doctorCommand is `doctor`: one line for each check, and exit code 1 if one failed, in every
// format. Our environment decides what auto means, not the environment that the daemon was started
// in. --json prints an api.DoctorReport.
func (a *app) doctorCommand() *cli.Command {
	var req api.DoctorRequest
	return &cli.Command{
		Name: "doctor", Category: catHost, Usage: "check what works on this machine, and say how to fix the rest",
		Description: "The exit code is 1 if a check failed.",
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "probe", Usage: "check again what this machine supports, instead of using earlier results", Destination: &req.Probe}},
		Action: func(ctx context.Context, _ *cli.Command) error {
			req.Isolation = agentbox.Isolation(os.Getenv(isolationEnv))
			report, err := call(ctx, a, api.Doctor, req)
			if err == nil && a.host == "" {
				var check api.Check
				check, err = a.checkAgents(ctx)
				report.Checks = append(report.Checks, check)
			}
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

// printChecks prints every check, with a hint below each failed one.
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
