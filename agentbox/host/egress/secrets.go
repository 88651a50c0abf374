package egress

import (
	"context"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/project"
	"agentbox/policy"
	"agentbox/policy/secrets"
)

// SetSecret records where a secret is kept and where it may be sent. A value in the request is
// written to the system's keyring and nowhere else; Missing, with alternatives, if there is no
// keyring. Running boxes may use the secret at once, and see its placeholder from their next
// command on.
func (ps *Policies) SetSecret(ctx context.Context, req api.SecretRequest, progress agentbox.Progress) (api.SecretInfo, error) {
	s := project.Secret{From: req.From, Secret: policy.Secret{Name: req.Name, Header: req.Header, Form: req.Form, User: req.User}}
	switch {
	case req.LentTo != nil:
		s.Project = lentTo(*req.LentTo)
		if s.From == (secrets.Reference{Kind: secrets.Keyring}) { // or a secret of boxes here would share its entry
			s.From.Target = s.Project + " " + s.Name
		}
	case !req.Everywhere:
		_, p, err := ps.projectOf(ctx, req.BoxRef)
		if err != nil {
			return api.SecretInfo{}, err
		}
		s.Project = p.Name
	}
	for _, to := range req.To {
		if err := s.AddScope(to); err != nil {
			return api.SecretInfo{}, agentbox.Errorf(agentbox.Invalid, "--to %q is not a host that a secret can be sent to: %w", to, err).WithHint("for example https://api.example.com, or 'GET https://api.example.com/v1/**'")
		}
	}
	if req.Value != "" {
		if err := s.From.Store(req.Name, req.Value); err != nil {
			return api.SecretInfo{}, agentbox.Errorf(agentbox.Missing, "cannot write to the system's keyring: %w", err).
				WithHint("use another source: --from env:VARIABLE, file:PATH or command:LINE")
		}
	}
	if err := ps.Store.SetSecret(s); err != nil {
		return api.SecretInfo{}, err
	}
	if err := ps.RememberEnv(req.Environ); err != nil {
		return api.SecretInfo{}, err
	}
	ps.Notify(ctx, func(g Scope) bool { return s.Applies(g.Project) }, progress)
	return ps.describeSecret(ctx, s), nil
}

// ListSecrets lists the secrets of a repository's boxes, including those for all boxes, and whether
// each has a value now. It reads files and the keyring for that, but runs no command.
func (ps *Policies) ListSecrets(ctx context.Context, ref api.PolicyRef, _ agentbox.Progress) ([]api.SecretInfo, error) {
	_, p, err := ps.projectOf(ctx, ref.BoxRef)
	if err != nil {
		return nil, err
	}
	list, err := ps.Store.SecretsFor(p)
	if err != nil {
		return nil, err
	}
	if err := ps.RememberEnv(ref.Environ); err != nil {
		return nil, err
	}
	out := []api.SecretInfo{}
	for _, s := range list {
		out = append(out, ps.describeSecret(ctx, s))
	}
	return out, nil
}

// RemoveSecret removes a secret and its entry in the keyring; no running box can use it any more.
// If the entry cannot be removed, the answer has a Problem and there is no error, since the secret
// itself is gone.
func (ps *Policies) RemoveSecret(ctx context.Context, ref api.SecretRef, progress agentbox.Progress) (info api.SecretInfo, err error) {
	p := project.Project{}
	if ref.LentTo != nil {
		lent, err := ps.lentSecret(*ref.LentTo, ref.Name)
		if err != nil {
			return api.SecretInfo{}, err
		}
		p.Name = lent.Project
	} else if _, p, err = ps.projectOf(ctx, ref.BoxRef); err != nil {
		return api.SecretInfo{}, err
	}
	s, err := ps.Store.RemoveSecret(ref.Name, p)
	if err != nil {
		return api.SecretInfo{}, err
	}
	ps.Notify(ctx, func(g Scope) bool { return s.Applies(g.Project) }, progress)
	out := secretInfo(s)
	// An entry with a name of its own may belong to others.
	if s.From.Kind == secrets.Keyring && (s.From.Target == "" || s.From.Target == s.Project+" "+s.Name) {
		if err := s.From.Forget(s.Name); err != nil {
			out.Problem = "its entry in the keyring is still there: " + err.Error()
		}
	}
	return out, nil
}

// secretInfo is a secret without its value.
func secretInfo(s project.Secret) api.SecretInfo {
	return api.SecretInfo{Secret: s.Secret, From: s.From.String(), Project: s.Project}
}

// SecretValues returns the values of a project's secrets and of those for all boxes, as far as they
// can be had without running a command.
func (ps *Policies) SecretValues(ctx context.Context, of string) (map[string]string, error) {
	list, err := ps.Store.SecretsFor(project.Project{Name: of})
	values := map[string]string{}
	for _, s := range list {
		if s.From.Kind == secrets.Command || s.From.Kind == secrets.Client {
			continue
		}
		if v, err := s.From.Value(ctx, ps.purpose(s)); err == nil {
			values[s.Name] = v
		}
	}
	return values, err
}

// describeSecret also says why a secret has no value now. It runs no command for that.
func (ps *Policies) describeSecret(ctx context.Context, s project.Secret) api.SecretInfo {
	out := secretInfo(s)
	if s.From.Kind == secrets.Command || s.From.Kind == secrets.Client {
		return out
	}
	if _, err := s.From.Value(ctx, ps.purpose(s)); err != nil {
		out.Problem = err.Error()
	}
	return out
}
