package cli

import (
	"context"
	"strings"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox/service"
)

// serviceCommand groups the verbs about the daemon as a system service. Package service does all
// the work; nothing here needs a daemon.
func (a *app) serviceCommand() *cli.Command {
	return &cli.Command{
		Name: "service", Category: catHost, Usage: "run the daemon while you are not logged in, for a machine that serves its team or works overnight",
		Description: "This is a unit of your user's systemd with lingering. It does not need root.",
		Commands: []*cli.Command{
			// It may be repeated, for example after an update.
			{Name: "install", Usage: "start the daemon now, and whenever the machine starts", Action: a.aboutService(service.Service.Install)},
			{Name: "status", Usage: "show whether the service runs, and what is missing", Action: a.aboutService(service.Service.Status)},
			{Name: "uninstall", Usage: "remove the service; boxes keep running, and commands start the daemon when they need it", Action: a.serviceUninstall},
		},
	}
}

// aboutService returns an Action that calls do and reports the resulting status. Each thing that
// still keeps the daemon from outliving a login has a row. --json prints a service.Status.
func (a *app) aboutService(do func(service.Service, context.Context) (service.Status, error)) cli.ActionFunc {
	return func(ctx context.Context, _ *cli.Command) error {
		s, err := a.here.Service()
		if err != nil {
			return err
		}
		st, err := do(s, ctx)
		if err != nil {
			return err
		}
		return a.report(serviceFacts(st))
	}
}

// serviceUninstall is `service uninstall`. It is no error if the service is not installed.
func (a *app) serviceUninstall(ctx context.Context, _ *cli.Command) error {
	s, err := a.here.Service()
	if err != nil {
		return err
	}
	if err := s.Uninstall(ctx); err != nil {
		return err
	}
	return a.report(facts{value: struct{}{}, text: "the service was removed"})
}

func serviceFacts(st service.Status) facts {
	// From the worst state to the best.
	state := "not installed: agentbox service install"
	switch {
	case st.Manager == "":
		state = "not supported on this machine"
	case st.Running && st.Persistent:
		state = "running, also while nobody is logged in"
	case st.Running:
		state = "running, until you log out"
	case st.Installed:
		state = "installed, not running"
	}
	f := facts{value: st, table: [][]string{{"service", state}}}
	if st.Manager != "" {
		f.table = append(f.table, []string{"unit", st.File + " (" + st.Manager + ")"})
	}
	// These keep the daemon from running while nobody is logged in, for example a lack of linger.
	for _, m := range st.Missing {
		f.table = append(f.table, []string{"missing", strings.TrimSpace(m)})
	}
	return f
}
