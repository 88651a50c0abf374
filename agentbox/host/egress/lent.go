package egress

import (
	"context"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/project"
	"agentbox/policy/secrets"
)

// lentPrefix begins the project, in the list of secrets, of those that boxes of another machine may
// use. No project is called so: their names are paths and addresses.
const lentPrefix = "host "

// lentTo is the project under which a secret of another machine's boxes is kept here.
func lentTo(l api.Lent) string { return lentPrefix + l.Host + " " + l.Project }

// LentHosts are the other machines whose boxes may use secrets of this one.
func (ps *Policies) LentHosts() (hosts []string, err error) {
	all, err := ps.Store.Secrets()
	for _, s := range all {
		rest, lent := strings.CutPrefix(s.Project, lentPrefix)
		if host, _, _ := strings.Cut(rest, " "); lent && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts, err
}

// lentSecret is a secret that was set for another machine. The error is NotFound if it is one of this
// machine's boxes only.
func (ps *Policies) lentSecret(to api.Lent, name string) (project.Secret, error) {
	all, err := ps.Store.Secrets()
	for _, s := range all {
		if s.Name == name && s.Project == lentTo(to) {
			return s, nil
		}
	}
	if err == nil {
		err = agentbox.Errorf(agentbox.NotFound, "there is no secret %s for %s", name, to.Host)
	}
	return project.Secret{}, err
}

// LentValue is the present value of a secret that was set for another machine, and of no other.
func (ps *Policies) LentValue(ctx context.Context, host string, ask api.LentValue) (string, error) {
	s, err := ps.lentSecret(api.Lent{Host: host, Project: ask.Project}, ask.Name)
	if err != nil {
		return "", err
	}
	return s.From.Value(ctx, ps.purpose(s))
}

// ClientOf says which client has the value of a secret of a box, and for which project it set it. The
// error is NotFound if none has.
func (ps *Policies) ClientOf(ctx context.Context, ref api.BoxRef, name string) (client string, ask api.LentValue, err error) {
	of, err := ps.Project(ctx, ref)
	if err != nil {
		return "", ask, err
	}
	list, err := ps.Store.SecretsFor(project.Project{Name: of})
	for _, s := range list {
		if s.Name == name && s.From.Kind == secrets.Client {
			return s.From.Target, api.LentValue{Project: s.Project, Name: name}, nil
		}
	}
	if err == nil {
		err = agentbox.Errorf(agentbox.NotFound, "no client has it")
	}
	return "", ask, err
}
