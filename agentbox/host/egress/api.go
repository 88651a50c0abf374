package egress

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/project"
	"agentbox/agentbox/workspace"
	"agentbox/agentbox/yamlfile"
	"agentbox/policy"
	"agentbox/policy/gateway"
)

// rootOf returns the checkout of a reference: that of the named box, else the one around the
// directory; "" for a box without a checkout.
func (ps *Policies) rootOf(ctx context.Context, ref api.BoxRef) (string, error) {
	if ref.Box != "" {
		_, s, err := ps.Boxes.Find(ctx, ref)
		return s.Root, err
	}
	repo, err := workspace.Describe(ctx, ref.Directory)
	return repo.Root, err
}

// placesOf lists where the configuration of a reference may be, the one that is meant first: the
// caller's directory, or what the box was made from. A digest decides between them.
func (ps *Policies) placesOf(ctx context.Context, ref api.PolicyRef, root string) []config.Place {
	here := config.Place{Directory: ref.Directory, Devcontainer: ref.Devcontainer}
	_, s, err := ps.Boxes.Find(ctx, ref.BoxRef)
	if ref.Box != "" {
		return []config.Place{s.At}
	}
	places := []config.Place{here}
	if err == nil && s.At.Devcontainer != "" && ref.Devcontainer == "" {
		places = []config.Place{s.At, here}
	} else if err == nil {
		places = append(places, s.At)
	}
	for _, name := range config.Devcontainers(ref.Directory) {
		places = append(places, config.Place{Directory: ref.Directory, Devcontainer: name})
	}
	return append(places, config.Place{Directory: root})
}

func (ps *Policies) projectOf(ctx context.Context, ref api.BoxRef) (string, project.Project, error) {
	root, err := ps.rootOf(ctx, ref)
	if err != nil {
		return "", project.Project{}, err
	}
	p, err := project.Identify(ctx, root)
	return root, p, err
}

// Project is the name of the project of a box, or of a checkout. The error is Forbidden for another
// machine's box, which gets nothing that this one's user has.
func (ps *Policies) Project(ctx context.Context, ref api.BoxRef) (string, error) {
	if ref.Box == "" {
		_, p, err := ps.projectOf(ctx, ref)
		return p.Name, err
	}
	_, s, err := ps.Boxes.Find(ctx, ref)
	if err == nil && s.Foreign {
		err = agentbox.Errorf(agentbox.Forbidden, "the box is another machine's")
	}
	return ps.ScopeOf(ctx, s).Project.Name, err
}

// scopeOfRef is the scope of the named box, else of the checkout. A box keeps the document that it
// was made or later put under; a checkout has what is approved now.
func (ps *Policies) scopeOfRef(ctx context.Context, ref api.PolicyRef, root string) (Scope, error) {
	if ref.Box == "" {
		return ps.scopeAt(ctx, root, ps.placesOf(ctx, ref, root)[0], ref.Environ)
	}
	_, s, err := ps.Boxes.Find(ctx, ref.BoxRef)
	if err != nil {
		return Scope{}, err
	}
	return ps.ScopeOf(ctx, s), nil
}

// Show reports what is in force for a repository, and what waits for approval. With Refresh it asks
// the machine's tools again where packages come from, and running boxes follow.
func (ps *Policies) Show(ctx context.Context, ref api.PolicyRef, progress agentbox.Progress) (api.PolicyReport, error) {
	root, err := ps.rootOf(ctx, ref.BoxRef)
	if err != nil {
		return api.PolicyReport{}, err
	}
	if ref.Refresh {
		if err := ps.Registries.Forget(); err != nil {
			return api.PolicyReport{}, err
		}
		defer ps.Notify(ctx, nil, progress)
	}
	return ps.report(ctx, root, ps.placesOf(ctx, ref, root)[0], ref.Environ)
}

// report is what is in force for a checkout, and what waits, with the digest of all that it asks for.
func (ps *Policies) report(ctx context.Context, root string, at config.Place, environ []string) (api.PolicyReport, error) {
	r, err := ps.Review.ReviewDirectory(ctx, root, at, environ)
	if err != nil {
		return api.PolicyReport{}, err
	}
	out, err := ps.reportInForce(ctx, Scope{Root: root, Project: r.Project, Document: r.InForce}, environ)
	out.Plan, out.Digest = r.Plan, r.Digest
	return out, err
}

// scopeAt is the scope of the checkout at root now. A repository whose configuration cannot be read
// has no rules of its own, and still those of its project.
func (ps *Policies) scopeAt(ctx context.Context, root string, at config.Place, environ []string) (Scope, error) {
	p, err := project.Identify(ctx, root)
	if err != nil {
		return Scope{}, err
	}
	r, err := ps.Review.ReviewDirectory(ctx, root, at, environ)
	if err != nil {
		return Scope{Root: root, Project: p}, nil //nolint:nilerr // making a box fails for the same reason, and reports it
	}
	return Scope{Root: root, Project: p, Document: r.InForce}, nil
}

// reportInForce is report without what the repository asks for.
func (ps *Policies) reportInForce(ctx context.Context, g Scope, environ []string) (api.PolicyReport, error) {
	f, err := ps.compose(ctx, g, environ)
	if err != nil {
		return api.PolicyReport{}, err
	}
	out := api.PolicyReport{Directory: g.Root, Project: g.Project.Name, Preset: f.spec.Preset, Layers: f.spec.Layers, Secrets: []api.SecretInfo{}}
	for _, s := range f.secrets {
		out.Secrets = append(out.Secrets, secretInfo(s))
	}
	return out, nil
}

// Approve approves what the repository asks for, if that still has the digest of the request;
// Conflict otherwise. Boxes of the checkout's present branch are governed by it at once, those of
// other branches from their next up or reset.
func (ps *Policies) Approve(ctx context.Context, req api.ApproveRequest, progress agentbox.Progress) (api.PolicyReport, error) {
	root, err := ps.rootOf(ctx, req.BoxRef)
	if err != nil {
		return api.PolicyReport{}, err
	}
	r, err := ps.reviewOf(ctx, req, root)
	if err != nil {
		return api.PolicyReport{}, err
	}
	if req.Digest != r.Digest {
		return api.PolicyReport{}, agentbox.Errorf(agentbox.Conflict, "%q is not the digest of what the repository asks for now", req.Digest).
			WithHint("agentbox policy show shows what it asks for, and the digest")
	}
	if err := ps.Store.Approve(r.Project, r.Proposed); err != nil {
		return api.PolicyReport{}, err
	}
	if err := ps.setDocument(ctx, root, r.Digest); err != nil {
		return api.PolicyReport{}, err
	}
	return ps.changed(ctx, root, req.PolicyRef, progress)
}

// reviewOf is the review of the configuration whose digest a request names, of those that it may
// mean; else of the one that it means.
func (ps *Policies) reviewOf(ctx context.Context, req api.ApproveRequest, root string) (first project.Review, err error) {
	for i, at := range ps.placesOf(ctx, req.PolicyRef, root) {
		r, problem := ps.Review.ReviewDirectory(ctx, root, at, req.Environ)
		if problem == nil && r.Digest == req.Digest {
			return r, nil
		}
		if i == 0 {
			first, err = r, problem
		}
	}
	return first, err
}

// setDocument makes a document govern the boxes of a checkout's present branch.
func (ps *Policies) setDocument(ctx context.Context, root, document string) error {
	repo, err := workspace.Describe(ctx, root)
	if err != nil {
		return err
	}
	return ps.Boxes.SetApproved(root, repo.Branch, document)
}

// changed applies a change to the running boxes of a checkout's project, or to all if root is "",
// and reports. Mistakes in the repository's own policy are reported and do not stop a user's
// change.
func (ps *Policies) changed(ctx context.Context, root string, ref api.PolicyRef, progress agentbox.Progress) (api.PolicyReport, error) {
	if root == "" {
		return api.PolicyReport{Boxes: ps.Notify(ctx, nil, progress)}, nil
	}
	p, err := project.Identify(ctx, root)
	if err != nil {
		return api.PolicyReport{}, err
	}
	notified := ps.Notify(ctx, func(g Scope) bool { return g.Project == p }, progress)
	out, mistakes := ps.report(ctx, root, ps.placesOf(ctx, ref, root)[0], ref.Environ)
	if mistakes != nil {
		var err error
		if out, err = ps.reportInForce(ctx, Scope{Root: root, Project: p}, ref.Environ); err != nil {
			return api.PolicyReport{}, err
		}
		progress.Note("what the repository itself asks for cannot be read: " + mistakes.Error())
	}
	out.Boxes = notified
	return out, nil
}

// Change changes the user's own rules; running boxes follow at once. A rule that would have no
// effect is refused, since its user would rely on it.
func (ps *Policies) Change(ctx context.Context, req api.ChangeRequest, progress agentbox.Progress) (api.PolicyReport, error) {
	root, p := "", project.Project{}
	if !req.Everywhere {
		var err error
		if root, p, err = ps.projectOf(ctx, req.BoxRef); err != nil {
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
		if err := checkEffective(req, r); err != nil {
			return api.PolicyReport{}, err
		}
		rules = append(rules, r)
	}
	if err := ps.Store.ChangeUser(p, func(f *policy.File) error { return change(f, req, rules) }); err != nil {
		return api.PolicyReport{}, err
	}
	return ps.changed(ctx, root, req.PolicyRef, progress)
}

// checkEffective returns the error for a new rule that would have no effect, because its targets
// belong to another list or to none.
func checkEffective(req api.ChangeRequest, r policy.Rule) error {
	if req.Remove || req.List == "deny" {
		return nil
	}
	class, what := r.Class()
	switch {
	case class == policy.Refused:
		return agentbox.Errorf(agentbox.Invalid, "%s would allow nothing: it covers %s, which no rule allows", r, what)
	case class == policy.Private && req.List == "allow":
		return agentbox.Errorf(agentbox.Invalid, "%s would allow nothing without --private: it covers %s", r, what).WithHint("agentbox policy allow --private '%s'", r)
	}
	return nil
}

// change applies a request to a file of the user's rules. Adding a rule twice has no effect.
// Removing one that does not exist is NotFound, as it may be mistyped. A private rule for every
// host (*) is refused.
func change(f *policy.File, req api.ChangeRequest, rules []policy.Rule) error {
	if req.Preset != nil {
		if *req.Preset != "" && policy.Breadth(*req.Preset) < 0 {
			return agentbox.Errorf(agentbox.Invalid, "%q is not a preset%s", *req.Preset, yamlfile.Suggest(*req.Preset, policy.Presets)).
				WithHint("none leaves the choice to the repository again")
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
		case req.Remove && !had && req.List == "allow" && slices.ContainsFunc(f.Private, same):
			return agentbox.Errorf(agentbox.NotFound, "%s is a private rule of yours", r).WithHint("agentbox policy allow --private --remove '%s'", r)
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

// Check says what would happen to a flow, and why. The gateway's code decides, with the policy as
// it would be composed now.
func (ps *Policies) Check(ctx context.Context, req api.CheckRequest, _ agentbox.Progress) (api.CheckReport, error) {
	root, err := ps.rootOf(ctx, req.BoxRef)
	if err != nil {
		return api.CheckReport{}, err
	}
	flow, err := policy.ParseFlow(req.URL, req.Method)
	if err != nil {
		return api.CheckReport{}, agentbox.Errorf(agentbox.Invalid, "%w", err).WithHint("agentbox policy check https://example.com/path, or example.com:22")
	}
	g, err := ps.scopeOfRef(ctx, req.PolicyRef, root)
	if err != nil {
		return api.CheckReport{}, err
	}
	f, err := ps.compose(ctx, g, req.Environ)
	if err != nil {
		return api.CheckReport{}, err
	}
	answer := gateway.Evaluator{Policy: policy.New(f.spec, gateway.IsHostAddress)}.Check(ctx, flow)
	out := api.CheckReport{URL: req.URL, Verdict: answer.Verdict, Secrets: answer.Secrets}
	for _, a := range answer.Addresses {
		out.Addresses = append(out.Addresses, a.String())
	}
	return out, nil
}

// AuditLog writes the entries of a box's log.
func (ps *Policies) AuditLog(ctx context.Context, req api.AuditRequest, w io.Writer) error {
	dir, err := ps.auditLog(ctx, req.BoxRef)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	write := func(e policy.Entry) error { return enc.Encode(e) }
	// It starts at the beginning and goes on from there, so that nothing is missed in between.
	if req.Follow {
		return policy.Follow(ctx, dir, 0, write)
	}
	return policy.Read(dir, write)
}

// VerifyAudit checks the chain of a box's log.
func (ps *Policies) VerifyAudit(ctx context.Context, ref api.BoxRef, _ agentbox.Progress) (api.AuditVerified, error) {
	dir, err := ps.auditLog(ctx, ref)
	if err != nil {
		return api.AuditVerified{}, err
	}
	box := filepath.Base(dir)
	v, err := policy.Verify(dir)
	if err != nil {
		return api.AuditVerified{}, agentbox.Errorf(agentbox.Corrupt, "the audit log of box %s: %w", box, err).WithHint("agentbox policy log %s prints what can be read of it", box)
	}
	return api.AuditVerified{Box: box, Entries: v.Entries, First: v.First, Last: v.Last, Head: v.Head}, nil
}

// auditLog returns the directory of a box's log. For a box that is gone, an ID or a prefix of it is
// enough. Logs are kept for a month after their box (see prune).
func (ps *Policies) auditLog(ctx context.Context, ref api.BoxRef) (string, error) {
	id, _, err := ps.Boxes.Find(ctx, ref)
	if err == nil {
		return ps.Home.Audit(id), nil
	}
	if agentbox.CodeOf(err) != agentbox.NotFound || len(ref.Box) < 2 {
		return "", err
	}
	entries, readErr := os.ReadDir(ps.Home.AuditLogs())
	if readErr != nil && !os.IsNotExist(readErr) {
		return "", readErr
	}
	var found []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ref.Box) {
			found = append(found, e.Name())
		}
	}
	if len(found) != 1 {
		return "", err
	}
	return filepath.Join(ps.Home.AuditLogs(), found[0]), nil
}
