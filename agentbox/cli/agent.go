package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/task/agents"
	"agentbox/policy"
	"agentbox/policy/secrets"
)

// agentCommand is `agent`: up, with an agent's program in the box, its hosts allowed and its key
// behind a placeholder, and then the agent instead of a shell. Afterwards it saves what the agent
// remembers of its conversations, even if the agent failed or was interrupted; the second call
// therefore has a context without cancellation.
func (a *app) agentCommand() *cli.Command {
	var req api.UpRequest
	var r run
	var detached bool
	return &cli.Command{
		Name: "agent", Category: catBox, Usage: "run a coding agent in the box of this repository and branch", ArgsUsage: "[NAME] [-- ARG...]",
		Description: "Installs the agent in the box of this repository and branch, creates that box if necessary, and allows the agent's hosts.\n" +
			"The agent's key stays on this machine: the box gets a placeholder. Without NAME it lists the agents.\n" +
			"With --detach the agent runs as a job, which continues after this program ends; agentbox attach joins it.",
		Flags: append(append(machineFlags(&req), r.flags()...),
			&cli.BoolFlag{Name: "detach", Aliases: []string{"d"}, Usage: "run in the background, and print the job's ID", Destination: &detached}),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if !cmd.Args().Present() {
				return a.listAgents(ctx)
			}
			if err := a.intoLima(ctx, &req.Isolation, false); err != nil {
				return err
			}
			args := a.command
			// `agent NAME ARG...` works without --, because an agent's own flags are rarely ours.
			if args == nil {
				args = cmd.Args().Tail()
			} else if cmd.Args().Len() > 1 {
				return agentbox.Errorf(agentbox.Invalid, "only one agent may be named before --")
			}
			resp, err := a.withAgent(ctx, cmd.Args().First(), req, &r, args)
			switch {
			case err != nil:
				return err
			case detached:
				r.tty = r.tty || len(args) == 0 // without arguments, the agent talks to a person
				return a.detach(ctx, resp.Box.ID.String(), r, false)
			}
			said := a.reportFirstDenial(ctx, resp.Box.ID.String(), cmd.Args().First())
			err = a.enter(ctx, resp.Connection, r)
			said()
			_, keepErr := call(context.WithoutCancel(ctx), a, api.KeepHistory, api.BoxRef{Box: resp.Box.ID.String()})
			if err == nil {
				err = keepErr
			}
			return err
		},
	}
}

// withAgent brings an agent into this directory's box, and sets r to the command that runs it. args
// are the user's own arguments for the agent. The order matters: the user reviews what the
// repository asks for before anything is granted, and the box is made last, so that it starts with
// all of it.
func (a *app) withAgent(ctx context.Context, name string, req api.UpRequest, r *run, args []string) (api.UpResponse, error) {
	profile, err := a.findAgent(ctx, name)
	if err != nil {
		return api.UpResponse{}, err
	}
	if err := a.grant(ctx, profile); err != nil {
		return api.UpResponse{}, err
	}
	req.Agent, req.Command = profile.Name, r.dir == ""
	r.argv = profile.Command(args)
	r.env = withDefaults(r.env, profile.Env)
	r.tty = r.tty || a.interactive()
	return a.up(ctx, req)
}

// findAgent returns the profile of an agent that may run here. It first asks a person at a terminal
// about what the repository asks for, including the repository's own profiles. So only what was
// approved runs.
func (a *app) findAgent(ctx context.Context, name string) (agents.Profile, error) {
	if err := a.reviewAtTerminal(ctx, false, ""); err != nil {
		return agents.Profile{}, err
	}
	ref, err := a.policyRef(ctx, "")
	if err != nil {
		return agents.Profile{}, err
	}
	return call(ctx, a, api.FindAgent, api.AgentRequest{PolicyRef: ref, Agent: name})
}

// withDefaults returns env with defaults for the variables that it lacks. The user's own --env thus
// takes precedence over a profile.
func withDefaults(env, defaults map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, defaults)
	maps.Copy(out, env)
	return out
}

// grant lets the boxes of this repository reach an agent's hosts and use its keys. The user asks for
// that by running the agent. What is granted is saved as the user's own rules, and reported once.
// Nothing is granted to an agent that other rules keep from all of its hosts.
func (a *app) grant(ctx context.Context, profile agents.Profile) error {
	ref, err := a.policyRef(ctx, "")
	if err != nil {
		return err
	}
	report, err := call(ctx, a, api.ShowPolicy, ref)
	if err != nil {
		return err
	}
	denied, err := a.checkHosts(report, profile)
	if err != nil {
		return err
	}
	if err := a.ensureKey(ctx, ref, profile); err != nil {
		return err
	}
	// Only missing rules are added: the user may already have a wider rule.
	for list, rules := range map[string][]string{"allow": profile.Hosts, "private": profile.Private} {
		missing := missingRules(report, rules)
		if len(missing) == 0 {
			continue
		}
		if _, err := call(ctx, a, api.ChangePolicy, api.ChangeRequest{PolicyRef: ref, List: list, Rules: missing}); err != nil {
			return err
		}
		reached := slices.DeleteFunc(missing, func(rule string) bool { return slices.Contains(denied, rule) })
		if !a.quiet && len(reached) > 0 {
			fmt.Fprintf(a.stderr, "%s: boxes of this repository may reach %s\n", profile.Name, strings.Join(reached, ", "))
		}
	}
	return nil
}

// missingRules returns the rules that no layer of the policy has. A rule that cannot be parsed
// counts as missing, so that the daemon reports what is wrong with it.
func missingRules(report api.PolicyReport, rules []string) []string {
	have := map[string]bool{}
	for _, layer := range report.Layers {
		for _, r := range slices.Concat(layer.Allow, layer.Private) {
			have[r.String()] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(rules), func(text string) bool {
		r, err := policy.ParseRule(text)
		return err == nil && have[r.String()]
	})
}

// ensureKey makes sure that one of an agent's secrets is set, and sets all that the environment has,
// as the agent may prefer any of them. Without any it tries, in this order: the login that the agent
// itself left on this machine; and a question at the terminal, whose answer goes into the keyring.
// If nobody can be asked, the error is Missing, with the command that sets the secret.
func (a *app) ensureKey(ctx context.Context, ref api.PolicyRef, profile agents.Profile) error {
	if len(profile.Secrets) == 0 {
		return nil
	}
	set, err := call(ctx, a, api.ListSecrets, ref)
	if err != nil {
		return err
	}
	has := false
	var names []string
	for _, s := range profile.Secrets {
		names = append(names, s.Name)
		if slices.ContainsFunc(set, func(i api.SecretInfo) bool { return i.Name == s.Name }) {
			has = true
		} else if from, ok := variableOf(s); ok {
			if err := a.setKey(ctx, ref, s, from); err != nil {
				return err
			}
			has = true
		}
	}
	if has {
		return nil
	}
	// Try a login on this machine before asking: it is what the user would paste.
	if s, from, ok := tokenOf(ctx, profile); ok {
		return a.setKey(ctx, ref, s, from)
	}
	s := profile.Secrets[0]
	if a.interactive() {
		return a.setKey(ctx, ref, s, secrets.Reference{Kind: secrets.Keyring})
	}
	return agentbox.Errorf(agentbox.Missing, "%s needs a key: %s is not set", profile.Name, strings.Join(names, " or ")).
		WithHint("export it, or run: agentbox secret set %s %s --from file:PATH", s.Name, keyFlags(s))
}

// variableOf returns a reference to the first variable of this process that has a secret.
func variableOf(s agents.Secret) (secrets.Reference, bool) {
	for _, name := range append([]string{s.Name}, s.Env...) {
		if os.Getenv(name) != "" {
			return secrets.Reference{Kind: secrets.Env, Target: name}, true
		}
	}
	return secrets.Reference{}, false
}

// tokenOf returns a reference to the token that an agent's own login has left on this machine. It
// reads the value only to check that there is one, and does not keep it.
func tokenOf(ctx context.Context, profile agents.Profile) (agents.Secret, secrets.Reference, bool) {
	home, err := os.UserHomeDir()
	if err != nil {
		return agents.Secret{}, secrets.Reference{}, false
	}
	for _, s := range profile.Secrets {
		if from, ok := s.Reference(home); ok {
			if _, err := from.Value(ctx, secrets.Purpose{Name: s.Name}); err == nil {
				return s, from, true
			}
		}
	}
	return agents.Secret{}, secrets.Reference{}, false
}

// keyFlags returns the flags of `secret set` for a profile's secret, for use in a hint.
func keyFlags(s agents.Secret) string {
	flags := []string{"--to", strings.Join(s.To, " --to ")}
	if s.Header != "" {
		flags = append(flags, "--header", s.Header)
	}
	if s.As != "" {
		flags = append(flags, "--as", string(s.As))
	}
	return strings.Join(flags, " ")
}

// setKey stores the source of an agent's key, and says on standard error where the key may be sent.
func (a *app) setKey(ctx context.Context, ref api.PolicyRef, s agents.Secret, from secrets.Reference) error {
	info, err := a.storeSecret(ctx, api.SecretRequest{PolicyRef: ref, Name: s.Name, From: from, To: s.To, Header: s.Header, Form: s.As})
	if err == nil && !a.quiet {
		fmt.Fprintf(a.stderr, "secret %s from %s, to %s; the box gets a placeholder\n", info.Name, info.From, rulesText(info.Scope))
	}
	return err
}

// listAgents shows all agents, where each profile comes from, and a description. --json prints a
// list of api.AgentInfo; --quiet the names.
func (a *app) listAgents(ctx context.Context) error {
	ref, _ := a.policyRef(ctx, "") // outside of a checkout there are the user's
	return callAndReport(ctx, a, api.ListAgents, ref, func(all []api.AgentInfo) facts {
		return listed(all, []string{"NAME", "PROGRAM", "PROFILE", "DESCRIPTION"}, func(r api.AgentInfo) (string, []string) {
			return r.Name, []string{r.Name, r.Program, string(r.Origin), r.Description}
		})
	})
}
