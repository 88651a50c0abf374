package egress

import (
	"context"
	"encoding/json"
	"slices"

	"agentbox/agentbox"
	"agentbox/agentbox/project"
	"agentbox/policy"
	"agentbox/policy/secrets"
)

// borrowed are the secrets of a loan, of which only their owner knows where they are kept.
func borrowed(l policy.Loan) (all []project.Secret) {
	for _, s := range l.Secrets {
		all = append(all, project.Secret{Secret: s})
	}
	return all
}

// secretsOf are the secrets of a box: those of its project, or those that are lent to it.
func (ps *Policies) secretsOf(ctx context.Context, s Subject) ([]project.Secret, error) {
	if !s.Foreign {
		return ps.Store.SecretsFor(ps.ScopeOf(ctx, s).Project)
	}
	l, err := policy.ParseLoan(s.Loan)
	return borrowed(l), err
}

// Lend makes the loan (policy.Loan) for tasks of a project that other machines run: secrets by name,
// and what the project's policy denies here. The error is NotFound if a secret is not set, and Missing
// if it has no value now.
func (ps *Policies) Lend(ctx context.Context, of string, names []string) (json.RawMessage, error) {
	scope := Scope{Project: project.Project{Name: of}}
	from, all, err := ps.sources(ctx, scope, nil)
	if err != nil {
		return nil, err
	}
	loan := policy.Loan{Bounds: policy.BoundsOf(from)}
	for _, name := range names {
		i := slices.IndexFunc(all, func(s project.Secret) bool { return s.Name == name })
		if i < 0 {
			return nil, agentbox.Errorf(agentbox.NotFound, "there is no secret %s for this repository", name).WithHint("agentbox secret ls lists them, agentbox secret set sets one")
		}
		if why := ps.describeSecret(ctx, all[i]).Problem; why != "" {
			return nil, agentbox.Errorf(agentbox.Missing, "secret %s has no value now: %s", name, why).WithHint("agentbox secret set %s says where it is kept", name)
		}
		loan.Secrets = append(loan.Secrets, all[i].Secret)
	}
	return json.Marshal(loan)
}

// SecretValue returns the present value of a secret of a project, for a machine that borrows it.
func (ps *Policies) SecretValue(ctx context.Context, of, name string) (string, error) {
	all, err := ps.Store.SecretsFor(project.Project{Name: of})
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(all, func(s project.Secret) bool { return s.Name == name })
	if i < 0 {
		return "", agentbox.Errorf(agentbox.NotFound, "it is not set any more")
	}
	s := all[i]
	return s.From.Value(ctx, ps.purpose(s))
}

func (ps *Policies) purpose(s project.Secret) secrets.Purpose {
	env := ps.variables([]project.Secret{s})
	return secrets.Purpose{Name: s.Name, Host: s.Host(), Env: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
}
