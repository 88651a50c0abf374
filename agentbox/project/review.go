package project

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"agentbox/agentbox"
	"agentbox/agentbox/yamlfile"
	"agentbox/policy"
)

// Review compares what a repository asks for with what is approved for its project. It describes
// one moment: the repository may ask for more at any time.
type Review struct {
	Root     string
	Project  Project
	Proposed Request
	Plan     []policy.Change // from the nearest approved document to the proposed one; empty if that is approved
	Digest   string          // of the proposal; approving names it, so that nobody approves what they have not seen
	InForce  string          // digest of the document that governs boxes made now
}

// Review reads what the repository at root asks for: a policy, which is a preset or a file relative
// to root, and asks, which the caller has resolved. wanted "" is the default preset.
//
// A document that allows nothing beyond an approved one is approved automatically, because needless
// questions teach people to say yes. While a document waits for a person, the part of it that needs
// no approval is in force: no branch gets what was approved for another.
//
// The error has code Invalid if the policy cannot be read or parsed. Nothing is approved then.
func (s *Store) Review(p Project, root, wanted string, asks []Ask) (Review, error) {
	r := Review{Root: root, Project: p, Proposed: Request{Host: asks}}
	var err error
	if r.Proposed.Policy, err = proposed(root, wanted); err != nil {
		return r, err
	}
	r.Digest = r.Proposed.Digest()
	approved, err := s.approvals(p)
	if err != nil {
		return r, err
	}
	// The empty document comes last: what asks for no more than that needs no approval.
	for i, granted := range append(approved, Request{}) {
		plan := r.Proposed.plan(granted)
		if !policy.IsWider(plan) {
			r.Plan, r.InForce = nil, r.Digest
			if i < len(approved) && granted.Digest() == r.Digest {
				return r, nil
			}
			return r, s.Approve(p, r.Proposed)
		}
		if r.Plan == nil || len(plan) < len(r.Plan) {
			r.Plan = plan
		}
	}
	restrictions := Request{Policy: policy.File{Deny: r.Proposed.Policy.Deny}}
	if w := policy.Breadth(r.Proposed.Policy.Preset); w >= 0 && w < policy.Breadth(policy.DefaultPreset) {
		restrictions.Policy.Preset = r.Proposed.Policy.Preset
	}
	r.InForce = restrictions.Digest()
	return r, s.Approve(p, restrictions)
}

// Pending reports whether a plan waits for a person. host reports whether the plan asks for
// something of this host, without which no box can be made.
func (r Review) Pending() (pending, host bool) {
	return len(r.Plan) > 0, slices.ContainsFunc(r.Plan, func(c policy.Change) bool { return c.Add && c.Host() })
}

func proposed(root, wanted string) (policy.File, error) {
	if wanted == "" || policy.Breadth(wanted) >= 0 {
		return policy.File{Preset: wanted}, nil
	}
	data, err := ReadInside(root, wanted, maxFile)
	if err != nil {
		e := agentbox.Errorf(agentbox.Invalid, "the policy %s of this repository cannot be read: %w", wanted, err)
		if filepath.Base(wanted) == wanted && filepath.Ext(wanted) == "" {
			return policy.File{}, e.WithHint("`policy:` is a preset or a file%s", yamlfile.Suggest(wanted, policy.Presets))
		}
		return policy.File{}, e.WithHint("`policy:` is a preset (offline, strict, balanced, open) or a file of the repository")
	}
	return policy.ParseFile(wanted, data)
}

// ReadInside reads the first limit bytes of a regular file of the repository. It follows no link out
// of the repository and waits for no pipe.
func ReadInside(root, name string, limit int64) ([]byte, error) {
	dir, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	f, err := dir.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	return io.ReadAll(io.LimitReader(f, limit))
}
