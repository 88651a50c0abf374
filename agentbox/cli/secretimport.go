package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/task/agents"
)

// imported is a row of `secret import`.
type imported struct {
	Name   string   `json:"name"`
	From   string   `json:"from"`
	To     []string `json:"to"`
	Agents []string `json:"agents"` // that use it
	State  string   `json:"state"`
}

// The states of a row.
const (
	stateFound  = "found"
	stateSet    = "set"
	stateBefore = "set before"
)

// secretImport is `secret import`. It handles names and places only: a value is read by the daemon
// when a request needs it, as with every reference. --json prints a list of imported.
func (a *app) secretImport() *cli.Command {
	var dryRun, everywhere bool
	return &cli.Command{
		Name: "import", Usage: "set the credentials that agents and package tools have on this machine", ArgsUsage: "[NAME...]",
		Description: "Looks for the keys of all agents in your environment and where their logins keep them, and for logins of package indexes in\n" +
			"~/.npmrc, ~/.netrc, pip's and Go's configuration. Sets references to them, or to those named: values stay where they are.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Usage: "only show what would be set", Destination: &dryRun},
			&cli.BoolFlag{Name: "everywhere", Usage: "apply to the boxes of all repositories", Destination: &everywhere},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			ref, err := a.policyRef(ctx, "")
			if err != nil && !everywhere {
				return err
			}
			host, err := agents.ThisHost()
			if err != nil {
				return err
			}
			found := host.Credentials(ctx, a.profiles())
			if found, err = named(found, cmd.Args().Slice()); err != nil {
				return err
			}
			rows, err := a.importAll(ctx, ref, found, dryRun, everywhere)
			if err != nil {
				return err
			}
			f := listed(rows, []string{"NAME", "FROM", "TO", "USED BY", "STATE"}, func(r imported) (string, []string) {
				return r.Name, []string{r.Name, r.From, strings.Join(r.To, ", "), strings.Join(r.Agents, ", "), r.State}
			})
			if len(rows) == 0 {
				f.table, f.text = nil, "nothing found: no agent has a login here, and no variable has a key (agentbox agent lists the agents)"
			}
			return a.report(f)
		},
	}
}

// profiles are those of all agents but a repository's, without any that cannot be read.
func (a *app) profiles() []agents.Profile {
	dirs := agents.Dirs{User: a.here.Agents()}
	var out []agents.Profile
	for _, name := range dirs.Names() {
		if p, err := dirs.Find(name); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// named selects those that were asked for; all without names.
func named(found []agents.Credential, names []string) ([]agents.Credential, error) {
	for _, name := range names {
		if !slices.ContainsFunc(found, func(c agents.Credential) bool { return c.Name == name }) {
			return nil, agentbox.Errorf(agentbox.NotFound, "no %s was found on this machine", name).WithHint("agentbox secret import --dry-run lists what was")
		}
	}
	return slices.DeleteFunc(found, func(c agents.Credential) bool { return len(names) > 0 && !slices.Contains(names, c.Name) }), nil
}

// importAll sets what was found and is not set yet.
func (a *app) importAll(ctx context.Context, ref api.PolicyRef, found []agents.Credential, dryRun, everywhere bool) ([]imported, error) {
	set, err := call(ctx, a, api.ListSecrets, ref)
	if err != nil && !everywhere { // outside of a checkout there are none
		return nil, err
	}
	rows := []imported{}
	for _, h := range found {
		row := imported{Name: h.Name, From: h.From.String(), To: h.To, Agents: append([]string{}, h.Agents...), State: stateFound}
		switch {
		case slices.ContainsFunc(set, func(i api.SecretInfo) bool { return i.Name == h.Name }):
			row.State = stateBefore
		case !dryRun:
			req := api.SecretRequest{PolicyRef: ref, Everywhere: everywhere, Name: h.Name, From: h.From, To: h.To, Header: h.Header, Form: h.As, User: h.User}
			if _, err := a.storeSecret(ctx, req); err != nil {
				return nil, err
			}
			row.State = stateSet
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// checkAgents is the row of doctor about agents: which of them would find a key if it began now.
func (a *app) checkAgents(ctx context.Context) (api.Check, error) {
	var set []api.SecretInfo
	if ref, err := a.policyRef(ctx, ""); err == nil {
		set, _ = call(ctx, a, api.ListSecrets, ref) // outside of a checkout there are none
	}
	profiles := a.profiles()
	host, err := agents.ThisHost()
	if err != nil {
		return api.Check{}, err
	}
	have := host.Credentials(ctx, profiles)
	var ready, without []string
	for _, p := range profiles {
		has := len(p.Secrets) == 0 || slices.ContainsFunc(have, func(c agents.Credential) bool { return slices.Contains(c.Agents, p.Name) })
		for _, s := range p.Secrets {
			has = has || slices.ContainsFunc(set, func(i api.SecretInfo) bool { return i.Name == s.Name && i.Problem == "" })
		}
		if has {
			ready = append(ready, p.Name)
			continue
		}
		without = append(without, fmt.Sprintf("%s (%s)", p.Name, p.Secrets[0].Name))
	}
	return api.Check{Name: "agents", OK: true, Detail: agentsText(ready, without)}, nil
}

func agentsText(ready, without []string) string {
	var parts []string
	if len(ready) > 0 {
		parts = append(parts, "would work now: "+strings.Join(ready, ", "))
	}
	if len(without) > 0 {
		parts = append(parts, "no key here for "+strings.Join(without, ", "))
	}
	return strings.Join(parts, "; ")
}
