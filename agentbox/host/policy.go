package host

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/agentbox/project"
	"agentbox/policy"
	"agentbox/policy/registries"
	"agentbox/policy/secrets"
)

// policies makes the policy of each box out of what was decided about its repository.
type policies struct {
	store      *project.Store
	registries *project.Registries

	mu  sync.Mutex
	env map[string]string // variables that secrets name, as callers last had them; in memory only
}

func newPolicies(h home.Home) *policies {
	store := project.NewStore(h)
	return &policies{store: store, registries: project.NewRegistries(h.Registries()), env: map[string]string{}}
}

// inForce is a policy composed for a checkout, with the secrets as they were set.
type inForce struct {
	spec    policy.Spec
	secrets []project.Secret
}

// governed is whose policy is meant: the checkout, whose remotes count, its project, and which
// approved document.
type governed struct {
	root     string
	project  project.Project
	document string
}

// governedBox is a box, which stays with its project when its checkout is gone.
func (m *Manager) governedBox(rec record) governed {
	g := governed{rec.Box.Directory, project.Project{Name: rec.Box.Project}, rec.Approved}
	if rec.Box.Directory == "" { // it installs tools, for a checkout that is not in it
		return g
	}
	if p, err := m.policies.store.Of(rec.Box.Directory); err == nil || g.project.IsZero() {
		g.project = p
	}
	if g.project.IsZero() {
		g.project.Name = rec.Box.Directory
	}
	return g
}

// policyOf composes the policy of a checkout. environ is that of whoever asks; nil stands for the daemon's own.
func (m *Manager) policyOf(ctx context.Context, g governed, environ []string) (inForce, error) {
	var src policy.Sources
	var errs [6]error
	p := m.policies
	src.Organisation, errs[0] = p.store.Organisation()
	own, err := p.store.User(g.project)
	errs[1] = err
	all, err := p.store.User(project.Project{})
	errs[2] = err
	wish, err := p.store.InForce(g.project, g.document)
	src.Repository, errs[3] = wish.Policy, err
	list, err := p.store.For(g.project)
	errs[4] = err
	if err := errors.Join(errs[:]...); err != nil {
		return inForce{}, err
	}
	src.User, src.UserPreset = []policy.File{own, all}, own.Preset
	if src.UserPreset == "" {
		src.UserPreset = all.Preset
	}
	if src.Machine, err = m.machineLayer(ctx, g.root, environ); err != nil {
		return inForce{}, err
	}
	for _, s := range list {
		src.Secrets = append(src.Secrets, s.Secret)
	}
	return inForce{policy.Compose(src), list}, nil
}

// machineLayer is what balanced adds: the registries of the machine, and the code hosts of the checkout.
func (m *Manager) machineLayer(ctx context.Context, root string, environ []string) (policy.Layer, error) {
	if environ == nil {
		environ = os.Environ()
	}
	found, err := m.policies.registries.Known(ctx, environ, func(refresh func(context.Context) (bool, error)) {
		m.running.Go(func() {
			changed, err := refresh(m.ctx)
			if err != nil {
				m.log.Warn("cannot look up the registries of this machine", "error", err)
			}
			if changed {
				m.tellBoxes(func(record) bool { return true }, nil)
			}
		})
	})
	if err != nil {
		return policy.Layer{}, err
	}
	if root != "" {
		found = append(found, registries.Remotes(ctx, registries.Host(root, environ))...)
	}
	return registries.Layer(found), nil
}

// applyPolicy puts the policy of a box's checkout in force in its machine. Whatever fails, the box is left with the policy
// it had, and a fresh machine has none: nothing leaves it.
func (m *Manager) applyPolicy(ctx context.Context, b *box) error {
	rec, s := b.record(), b.live()
	if s == nil || rec.Phase == phasePool {
		return nil
	}
	return m.enforce(ctx, s, rec)
}

// enforce tells a supervisor what its box may do.
func (m *Manager) enforce(ctx context.Context, s *supervised, rec record) error {
	s.policy.Lock()
	defer s.policy.Unlock()
	f, err := m.policyOf(ctx, m.governedBox(rec), nil)
	if err != nil {
		return err
	}
	req := api.PolicyInForce{Spec: f.spec, Secrets: map[string]secrets.Source{}, Limits: rec.Limits}
	for i, secret := range f.spec.Secrets {
		req.Spec.Secrets[i].Placeholder = rec.placeholder(secret.Name)
		req.Secrets[secret.Name] = secrets.Source{From: f.secrets[i].From, Host: f.secrets[i].Host()}
	}
	req.Env = m.policies.variables(f.secrets)
	_, err = api.Call(ctx, s.client, api.SupervisorPolicy, req, nil)
	return err
}

// placeholder is what the box has in place of a secret: guessed by nobody who has not seen it, and the same for as long as
// the box exists and in its forks, which have its memory.
func (r record) placeholder(name string) string {
	mac := hmac.New(sha256.New, []byte(r.Seed))
	mac.Write([]byte(name))
	return policy.PlaceholderPrefix + hex.EncodeToString(mac.Sum(nil)[:20])
}

// placeholders are what the box's environment has in place of secrets that it may use.
func (m *Manager) placeholders(rec record) map[string]string {
	list, err := m.policies.store.For(m.governedBox(rec).project)
	if err != nil {
		return nil // whoever applies the policy says it
	}
	env := map[string]string{}
	for _, s := range list {
		env[s.Name] = rec.placeholder(s.Name)
	}
	return env
}

// remember keeps the variables of a caller that secrets name, in memory.
func (p *policies) remember(environ []string) error {
	list, err := p.store.Secrets()
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range list {
		for _, kv := range environ {
			if v, ok := strings.CutPrefix(kv, s.From.Of+"="); ok && s.From.Kind == secrets.Env {
				p.env[s.From.Of] = v
			}
		}
	}
	return nil
}

// variables are those that the secrets name, as far as they are known.
func (p *policies) variables(list []project.Secret) map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	env := map[string]string{}
	for _, s := range list {
		if v, ok := p.env[s.From.Of]; ok && s.From.Kind == secrets.Env {
			env[s.From.Of] = v
		}
	}
	return env
}

// tellTimeout is how long a box may take to follow a change of its policy.
const tellTimeout = time.Minute

// tellBoxes puts the present policy in force in the running boxes that are concerned, those that are being made included, whether
// or not who changed it still waits, and gives their names. One that cannot be told is ended: it would go on under rules that
// somebody has just taken back. Only one that reaches nothing any more stays as it is.
func (m *Manager) tellBoxes(concerned func(record) bool, progress agentbox.Progress) []string {
	var told []string
	for _, b := range m.all() {
		rec := b.record()
		if rec.Phase == phasePool || rec.Phase == phaseRemoving || b.live() == nil || !concerned(rec) {
			continue
		}
		ctx, cancel := context.WithTimeout(m.ctx, tellTimeout)
		err := m.applyPolicy(ctx, b)
		cancel()
		if err != nil {
			if m.ctx.Err() == nil && b.live() != nil { // else its machine has ended, or we have
				m.untold(b, err, progress)
			}
			continue
		}
		told = append(told, rec.Box.Name)
	}
	slices.Sort(told)
	return told
}

// unloggedNote is what people are told of a box whose audit log could not be written.
const unloggedNote = "its audit log could not be written, so it has no network; free some disk space, then agentbox reset gives it one again"

// noCardNote is what people are told of a box whose machine has no network card.
const noCardNote = "this machine gives it no network card, so it has no network; agentbox logs --supervisor says why"

// untold ends a running box whose policy cannot be changed, unless nothing leaves it anyway.
func (m *Manager) untold(b *box, why error, progress agentbox.Progress) {
	rec := b.record()
	if m.unlogged(b) {
		progress.Say("box " + rec.Box.Name + ": " + unloggedNote)
		return
	}
	m.log.Error("cannot change the policy of a running box, so it is stopped", "box", rec.Box.ID, "error", why)
	progress.Say("box " + rec.Box.Name + ": its policy cannot be changed, so it is stopped: " + why.Error())
	if err := m.endMachine(b); err != nil {
		m.log.Error("cannot stop a box", "box", rec.Box.ID, "error", err)
	}
}

// unlogged tells whether the audit log of a running box could not be written.
func (m *Manager) unlogged(b *box) bool {
	s := b.live()
	if s == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(m.ctx, askTimeout)
	defer cancel()
	st, err := api.Call(ctx, s.client, api.SupervisorStatusE, api.StatusRequest{}, nil)
	return err == nil && st.Unlogged
}
