package host

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/project"
	"agentbox/agentbox/workspace"
	"agentbox/policy"
	"agentbox/policy/gateway"
)

// rootOf is the checkout a reference means: that of the box it names, else the one the directory is in.
func (m *Manager) rootOf(ctx context.Context, ref api.BoxRef) (string, error) {
	if ref.Box != "" {
		b, err := m.find(ctx, ref)
		if err != nil {
			return "", err
		}
		return b.record().Box.Directory, nil
	}
	repo, err := workspace.Describe(ctx, ref.Directory)
	return repo.Root, err
}

// projectOf is the checkout a reference means, and its project.
func (m *Manager) projectOf(ctx context.Context, ref api.BoxRef) (string, project.Project, error) {
	root, err := m.rootOf(ctx, ref)
	if err != nil {
		return "", project.Project{}, err
	}
	p, err := m.policies.store.Of(root)
	return root, p, err
}

// governedRef is the box that a reference names, else the checkout.
func (m *Manager) governedRef(ctx context.Context, ref api.BoxRef, root string, environ []string) (governed, error) {
	if ref.Box == "" {
		return m.governedAt(ctx, root, environ)
	}
	b, err := m.find(ctx, ref)
	if err != nil {
		return governed{}, err
	}
	return m.governedBox(b.record()), nil
}

// ShowPolicy tells what is in force for a repository, and what waits for approval.
func (m *Manager) ShowPolicy(ctx context.Context, ref api.PolicyRef, progress agentbox.Progress) (api.PolicyReport, error) {
	root, err := m.rootOf(ctx, ref.BoxRef)
	if err != nil {
		return api.PolicyReport{}, err
	}
	if ref.Refresh {
		if err := m.policies.registries.Forget(); err != nil {
			return api.PolicyReport{}, err
		}
		defer m.tellBoxes(func(record) bool { return true }, progress)
	}
	return m.report(ctx, root, ref.Environ)
}

func (m *Manager) report(ctx context.Context, root string, environ []string) (api.PolicyReport, error) {
	r, err := m.reviewAt(ctx, root, environ)
	if err != nil {
		return api.PolicyReport{}, err
	}
	out, err := m.reportInForce(ctx, governed{root, r.Project, r.InForce}, environ)
	if pending, _ := r.Pending(); err == nil && pending {
		out.Plan, out.Digest = r.Plan, r.Digest
	}
	return out, err
}

// governedAt is the checkout at root as it asks now; mistakes of the repository do not change whose
// rules count.
func (m *Manager) governedAt(ctx context.Context, root string, environ []string) (governed, error) {
	p, err := m.policies.store.Of(root)
	if err != nil {
		return governed{}, err
	}
	r, err := m.reviewAt(ctx, root, environ)
	if err != nil {
		return governed{root, p, project.Nothing}, nil //nolint:nilerr // whoever makes a box of it is told
	}
	return governed{root, p, r.InForce}, nil
}

// reportInForce is a report without what the repository asks for.
func (m *Manager) reportInForce(ctx context.Context, g governed, environ []string) (api.PolicyReport, error) {
	f, err := m.policyOf(ctx, g, environ)
	if err != nil {
		return api.PolicyReport{}, err
	}
	out := api.PolicyReport{Directory: g.root, Project: g.project.Name, Preset: f.spec.Preset, Layers: f.spec.Layers, Secrets: []api.SecretInfo{}}
	for _, s := range f.secrets {
		out.Secrets = append(out.Secrets, secretInfo(s))
	}
	return out, nil
}

// ApprovePolicy makes what the repository asks for the approved copy, if it still is what the digest names.
func (m *Manager) ApprovePolicy(ctx context.Context, req api.ApproveRequest, progress agentbox.Progress) (api.PolicyReport, error) {
	root, err := m.rootOf(ctx, req.BoxRef)
	if err != nil {
		return api.PolicyReport{}, err
	}
	r, err := m.reviewAt(ctx, root, req.Environ)
	if err != nil {
		return api.PolicyReport{}, err
	}
	if req.Digest != r.Digest {
		return api.PolicyReport{}, agentbox.Errorf(agentbox.Conflict, "the repository's policy is not, or no longer, the one named %q", req.Digest).
			WithHint("agentbox policy show shows what it asks for now")
	}
	if err := m.policies.store.Approve(r.Project, r.Proposed); err != nil {
		return api.PolicyReport{}, err
	}
	if err := m.govern(ctx, root, r.Digest); err != nil {
		return api.PolicyReport{}, err
	}
	return m.changed(ctx, root, req.Environ, progress)
}

// govern puts the boxes of a checkout's present branch under a document.
func (m *Manager) govern(ctx context.Context, root, document string) error {
	repo, err := workspace.Describe(ctx, root)
	if err != nil {
		return err
	}
	for _, b := range m.all() {
		if rec := b.record(); rec.Phase == phaseReady && rec.Box.Directory == root && rec.Box.Branch == repo.Branch {
			if err := m.putUnder(b, document); err != nil {
				return err
			}
		}
	}
	return nil
}

// putUnder writes down which approved document governs a box.
func (m *Manager) putUnder(b *box, document string) error {
	if b.record().Approved == document {
		return nil
	}
	b.set(func(b *box) { b.rec.Approved = document })
	return writeRecord(m.home, b.record())
}

// changed tells the running boxes of a checkout's project, or all when root is "", and reports.
func (m *Manager) changed(ctx context.Context, root string, environ []string, progress agentbox.Progress) (api.PolicyReport, error) {
	if root == "" {
		return api.PolicyReport{Boxes: m.tellBoxes(func(rec record) bool { return true }, progress)}, nil
	}
	p, err := m.policies.store.Of(root)
	if err != nil {
		return api.PolicyReport{}, err
	}
	told := m.tellBoxes(func(rec record) bool { return m.governedBox(rec).project == p }, progress)
	out, mistakes := m.report(ctx, root, environ)
	if mistakes != nil {
		var err error
		if out, err = m.reportInForce(ctx, governed{root, p, project.Nothing}, environ); err != nil {
			return api.PolicyReport{}, err
		}
		progress.Say("what the repository itself asks for cannot be read: " + mistakes.Error())
	}
	out.Boxes = told
	return out, nil
}

// ChangePolicy changes the user's own rules. Running boxes follow at once.
func (m *Manager) ChangePolicy(ctx context.Context, req api.ChangeRequest, progress agentbox.Progress) (api.PolicyReport, error) {
	root, p := "", project.Project{}
	if !req.Everywhere {
		var err error
		if root, p, err = m.projectOf(ctx, req.BoxRef); err != nil {
			return api.PolicyReport{}, err
		}
	}
	var rules []policy.Rule
	for _, s := range req.Rules {
		r, err := policy.ParseRule(s)
		if err != nil {
			return api.PolicyReport{}, agentbox.Errorf(agentbox.Invalid, "%q is not a rule: %w", s, err).
				WithHint("for example example.com, '*.example.com:443' or 'GET https://api.example.com/v1/**'; see docs/policy.md")
		}
		if err := opensNothing(req, r); err != nil {
			return api.PolicyReport{}, err
		}
		rules = append(rules, r)
	}
	if err := m.policies.store.ChangeUser(p, func(f *policy.File) error { return change(f, req, rules) }); err != nil {
		return api.PolicyReport{}, err
	}
	return m.changed(ctx, root, req.Environ, progress)
}

// opensNothing is why a new rule would change nothing, as it is only about what another list
// grants, or none does.
func opensNothing(req api.ChangeRequest, r policy.Rule) error {
	if req.Remove || req.List == "deny" {
		return nil
	}
	class, what := r.Class()
	switch {
	case class == policy.Refused:
		return agentbox.Errorf(agentbox.Invalid, "%s opens nothing: it is about %s, which no rule opens", r, what)
	case class == policy.Private && req.List == "allow":
		return agentbox.Errorf(agentbox.Invalid, "%s opens nothing without --private: it is about %s", r, what).WithHint("agentbox policy allow --private '%s'", r)
	}
	return nil
}

func change(f *policy.File, req api.ChangeRequest, rules []policy.Rule) error {
	if req.Preset != nil {
		if *req.Preset != "" && policy.Width(*req.Preset) < 0 {
			return agentbox.Errorf(agentbox.Invalid, "%q is not a preset%s", *req.Preset, policy.Suggest(*req.Preset, policy.Presets))
		}
		f.Preset = *req.Preset
	}
	list := map[string]*[]policy.Rule{"allow": &f.Allow, "deny": &f.Deny, "private": &f.Private}[req.List]
	if list == nil {
		return agentbox.Errorf(agentbox.Invalid, "there is no list %q of rules", req.List)
	}
	for _, r := range rules {
		same := func(o policy.Rule) bool { return o.String() == r.String() }
		switch had := slices.ContainsFunc(*list, same); {
		case req.Remove && !had:
			return agentbox.Errorf(agentbox.NotFound, "there is no rule of yours `%s %s` here", req.List, r).WithHint("agentbox policy show lists them")
		case req.Remove:
			*list = slices.DeleteFunc(*list, same)
		case req.List == "private" && r.Host == "*":
			return agentbox.Errorf(agentbox.Invalid, "name the private hosts: * would open every private network this machine reaches")
		case !had:
			*list = append(*list, r)
		}
	}
	return nil
}

// CheckPolicy tells what would become of a flow, and why.
func (m *Manager) CheckPolicy(ctx context.Context, req api.CheckRequest, _ agentbox.Progress) (api.CheckReport, error) {
	root, err := m.rootOf(ctx, req.BoxRef)
	if err != nil {
		return api.CheckReport{}, err
	}
	flow, err := policy.ParseFlow(req.URL, req.Method)
	if err != nil {
		return api.CheckReport{}, agentbox.Errorf(agentbox.Invalid, "%w", err).WithHint("agentbox policy check https://example.com/path, or example.com:22")
	}
	g, err := m.governedRef(ctx, req.BoxRef, root, req.Environ)
	if err != nil {
		return api.CheckReport{}, err
	}
	f, err := m.policyOf(ctx, g, req.Environ)
	if err != nil {
		return api.CheckReport{}, err
	}
	answer := gateway.Evaluator{Policy: policy.New(f.spec, gateway.IsOwn)}.Check(ctx, flow)
	out := api.CheckReport{URL: req.URL, Verdict: answer.Verdict, Secrets: answer.Secrets}
	for _, a := range answer.Addresses {
		out.Addresses = append(out.Addresses, a.String())
	}
	return out, nil
}

// AuditLog tells where the log of a box is, also of one that is gone, by its id or a prefix of it.
func (m *Manager) AuditLog(ctx context.Context, ref api.BoxRef, _ agentbox.Progress) (api.AuditPlace, error) {
	b, err := m.find(ctx, ref)
	if err == nil {
		id := b.record().Box.ID
		return api.AuditPlace{Box: id.String(), Directory: m.home.Audit(id)}, nil
	}
	if agentbox.CodeOf(err) != agentbox.NotFound || len(ref.Box) < 2 {
		return api.AuditPlace{}, err
	}
	entries, readErr := os.ReadDir(m.home.Audits())
	if readErr != nil && !os.IsNotExist(readErr) {
		return api.AuditPlace{}, readErr
	}
	var found []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ref.Box) {
			found = append(found, e.Name())
		}
	}
	if len(found) != 1 {
		return api.AuditPlace{}, err
	}
	return api.AuditPlace{Box: found[0], Directory: filepath.Join(m.home.Audits(), found[0])}, nil
}
