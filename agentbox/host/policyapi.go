package host

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/approval"
	"agentbox/agentbox/config"
	"agentbox/agentbox/workspace"
	"agentbox/policy"
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
	r, err := m.review(ctx, root)
	if err != nil {
		return api.PolicyReport{}, err
	}
	pending, err := m.policies.store.Adopt(r)
	if err != nil {
		return api.PolicyReport{}, err
	}
	out, err := m.reportInForce(ctx, root, environ)
	if err == nil && pending {
		out.Plan, out.Digest = r.Plan, r.Digest
	}
	return out, err
}

// reportInForce is a report without what the repository asks for.
func (m *Manager) reportInForce(ctx context.Context, root string, environ []string) (api.PolicyReport, error) {
	f, err := m.policyOf(ctx, root, environ)
	if err != nil {
		return api.PolicyReport{}, err
	}
	out := api.PolicyReport{Directory: root, Preset: f.spec.Preset, Layers: f.spec.Layers, Secrets: []api.SecretInfo{}}
	for _, s := range f.secrets {
		out.Secrets = append(out.Secrets, secretInfo(s))
	}
	return out, nil
}

func (m *Manager) review(ctx context.Context, root string) (approval.Review, error) {
	cfg, err := config.Load(ctx, root)
	if err != nil {
		return approval.Review{}, err
	}
	return m.policies.store.Review(root, cfg.Policy)
}

// ApprovePolicy makes what the repository asks for the approved copy, if it still is what the digest names.
func (m *Manager) ApprovePolicy(ctx context.Context, req api.ApproveRequest, progress agentbox.Progress) (api.PolicyReport, error) {
	root, err := m.rootOf(ctx, req.BoxRef)
	if err != nil {
		return api.PolicyReport{}, err
	}
	r, err := m.review(ctx, root)
	if err != nil {
		return api.PolicyReport{}, err
	}
	if req.Digest != r.Digest {
		return api.PolicyReport{}, agentbox.Errorf(agentbox.Conflict, "the repository's policy is not, or no longer, the one named %q", req.Digest).
			WithHint("agentbox policy show shows what it asks for now")
	}
	if err := m.policies.store.Approve(root, r.Proposed); err != nil {
		return api.PolicyReport{}, err
	}
	return m.changed(ctx, root, req.Environ, progress)
}

// changed tells the running boxes of a checkout, or all when root is "", and reports.
func (m *Manager) changed(ctx context.Context, root string, environ []string, progress agentbox.Progress) (api.PolicyReport, error) {
	told := m.tellBoxes(func(rec record) bool { return root == "" || rec.Box.Directory == root }, progress)
	if root == "" {
		return api.PolicyReport{Boxes: told}, nil
	}
	out, mistakes := m.report(ctx, root, environ)
	if mistakes != nil {
		var err error
		if out, err = m.reportInForce(ctx, root, environ); err != nil {
			return api.PolicyReport{}, err
		}
		progress.Say("what the repository itself asks for cannot be read: " + mistakes.Error())
	}
	out.Boxes = told
	return out, nil
}

// ChangePolicy changes the user's own rules. Running boxes follow at once.
func (m *Manager) ChangePolicy(ctx context.Context, req api.ChangeRequest, progress agentbox.Progress) (api.PolicyReport, error) {
	root := ""
	if !req.Everywhere {
		var err error
		if root, err = m.rootOf(ctx, req.BoxRef); err != nil {
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
		rules = append(rules, r)
	}
	if err := m.policies.store.ChangeUser(root, func(f *policy.File) error { return change(f, req, rules) }); err != nil {
		return api.PolicyReport{}, err
	}
	return m.changed(ctx, root, req.Environ, progress)
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
	flow, err := flowOf(req.URL, req.Method)
	if err != nil {
		return api.CheckReport{}, agentbox.Errorf(agentbox.Invalid, "%w", err).WithHint("agentbox policy check https://example.com/path, or example.com:22")
	}
	f, err := m.policyOf(ctx, root, req.Environ)
	if err != nil {
		return api.CheckReport{}, err
	}
	p := policy.New(f.spec, ownAddresses())
	out := api.CheckReport{URL: req.URL, Verdict: p.Decide(flow)}
	for _, s := range p.SecretsFor(flow) {
		if out.Verdict.Allow {
			out.Secrets = append(out.Secrets, s.Name)
		}
	}
	if !out.Verdict.Allow || flow.Name == "" {
		return out, nil
	}
	return out, checkAddresses(ctx, p, flow, &out)
}

// checkAddresses decides about each address an allowed name has here; it counts as allowed when one of them is.
func checkAddresses(ctx context.Context, p *policy.Policy, flow policy.Flow, out *api.CheckReport) error {
	addrs := []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	if flow.Name != policy.HostName {
		var err error
		if addrs, err = net.DefaultResolver.LookupNetIP(ctx, "ip", flow.Name); err != nil {
			return nil // a name that does not resolve here now is still allowed
		}
	}
	var denied *policy.Verdict
	allowed := false
	for _, a := range addrs {
		flow.Addr = a.Unmap()
		out.Addresses = append(out.Addresses, flow.Addr.String())
		v := p.Decide(flow)
		if allowed = allowed || v.Allow; !v.Allow {
			denied = &v
		}
	}
	if !allowed && denied != nil {
		out.Verdict = *denied
	}
	return nil
}

// flowOf reads a URL, or HOST[:PORT], as the flow it would be.
func flowOf(s, method string) (policy.Flow, error) {
	f := policy.Flow{Proto: policy.HTTP, Port: 443, Method: strings.ToUpper(method)}
	if !strings.Contains(s, "://") {
		r, err := policy.ParseRule(s)
		if err != nil || r.Path != "" || r.Host == "*" || strings.HasPrefix(r.Host, "*.") {
			s = "https://" + s
		} else {
			f.Proto, f.Name, f.Method = policy.TCP, r.Host, ""
			if r.Prefix.IsSingleIP() {
				f.Addr = r.Prefix.Addr()
			}
			if r.From != 0 {
				f.Port = r.From
			}
			return f, nil
		}
	}
	u, err := url.Parse(s)
	if err != nil {
		return f, err
	}
	if f.Name, f.Addr, err = policy.CanonicalHost(u.Hostname()); err != nil {
		return f, err
	}
	switch u.Scheme {
	case "http", "ws":
		f.Port = 80
	case "https", "wss":
	case "ssh":
		f.Proto, f.Port = policy.TCP, 22
	case "udp":
		f.Proto = policy.UDP
	default:
		f.Proto = policy.TCP
	}
	if u.Port() != "" {
		n, err := strconv.ParseUint(u.Port(), 10, 16)
		if err != nil {
			return f, err
		}
		f.Port = uint16(n)
	}
	if f.Proto == policy.HTTP {
		if f.Path = u.EscapedPath(); f.Path == "" {
			f.Path = "/"
		}
		if f.Method == "" {
			f.Method = "GET"
		}
	}
	return f, nil
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
