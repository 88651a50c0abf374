package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"sort"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/project"
	"agentbox/agentbox/workspace"
)

// boxKey identifies the box of a directory and branch, as far as its lifetime depends on them. It
// is a hex digest, since keys are only compared. A change of what goes into it would make every
// existing box unfindable from its checkout.
func boxKey(lifetime agentbox.Lifetime, repo workspace.Repo, p project.Project) string {
	parts := []string{string(lifetime)}
	switch lifetime {
	// One box for each project, so that no repository's box is entered for another's.
	case agentbox.LifetimeDeveloper:
		parts = append(parts, p.Name)
	case agentbox.LifetimeProject:
		parts = append(parts, repo.Root)
	default:
		parts = append(parts, repo.Root, repo.Branch)
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}

// find resolves a reference to a ready box. In this order: a full id, a name, a unique prefix of an
// id of at least two digits. A name that is also a prefix of an id means the name. An empty
// reference means the box of ref.Directory.
func (t *table) find(ctx context.Context, ref api.BoxRef) (*box, error) {
	if ref.Box == "" {
		return t.findByDirectory(ctx, ref.Directory)
	}
	var byPrefix, byName []*box
	for _, b := range t.all() {
		rec := b.record()
		// Only a full id ends the search.
		switch id := rec.Box.ID.String(); {
		case rec.Phase != phaseReady:
		case id == ref.Box:
			return b, nil
		case rec.Box.Name == ref.Box:
			byName = append(byName, b)
		case len(ref.Box) >= 2 && strings.HasPrefix(id, ref.Box):
			byPrefix = append(byPrefix, b)
		}
	}
	if len(byName) == 1 {
		return byName[0], nil
	}
	switch len(byPrefix) {
	case 1:
		return byPrefix[0], nil
	case 0:
		return nil, agentbox.Errorf(agentbox.NotFound, "no box %q here", ref.Box).WithHint("agentbox ls shows the boxes of this machine")
	}
	return nil, agentbox.Errorf(agentbox.Conflict, "%q is the beginning of %d box ids: %s", ref.Box, len(byPrefix), ids(byPrefix)).
		WithHint("give more digits, or the name")
}

// ids lists the ids of boxes, sorted, for a message.
func ids(boxes []*box) string {
	var out []string
	for _, b := range boxes {
		out = append(out, b.record().Box.ID.String())
	}
	sort.Strings(out)
	return strings.Join(out, ", ")
}

// findByDirectory finds the box of the branch that is checked out in dir. Which box that is depends
// on the lifetime in the configuration.
func (t *table) findByDirectory(ctx context.Context, dir string) (*box, error) {
	if dir != "" && !filepath.IsAbs(dir) { // MACHINE:PATH of a client elsewhere, which looks for its boxes itself
		return nil, agentbox.Errorf(agentbox.NotFound, "%s has no box here", dir).WithHint("agentbox up makes one, and agentbox ls lists those that there are")
	}
	repo, err := workspace.Describe(ctx, dir)
	if err != nil {
		return nil, err
	}
	p, err := project.Identify(ctx, repo.Root)
	if err != nil {
		return nil, err
	}
	cfg, err := config.Load(ctx, dir)
	if err != nil {
		if b := t.onlyBoxOf(repo, p); b != nil {
			return b, nil // a broken configuration must not lock the user out of a box
		}
		return nil, err
	}
	if b := t.byKey(boxKey(cfg.Lifetime, repo, p)); b != nil {
		return b, nil
	}
	none := agentbox.Errorf(agentbox.NotFound, "%s has no box for branch %s", repo.Root, repo.Branch).WithHint("agentbox up makes one")
	if others := t.namesOf(repo.Root); len(others) > 0 {
		none.WithHint("agentbox up makes one; this checkout has %s: name one, or switch to its branch", strings.Join(others, ", "))
	}
	return nil, none
}

// namesOf lists the ready boxes of a checkout with their branches, sorted, for a message.
func (t *table) namesOf(root string) (names []string) {
	for _, b := range t.all() {
		if rec := b.record(); rec.Phase == phaseReady && rec.Key != "" && rec.Box.Directory == root {
			names = append(names, fmt.Sprintf("%s (%s)", rec.Box.Name, rec.Box.Branch))
		}
	}
	sort.Strings(names)
	return names
}

// byKey returns the ready box of a key, nil if there is none. There is at most one, because Up
// holds the lock of the key from the lookup until the box is made.
func (t *table) byKey(key string) *box {
	for _, b := range t.all() {
		if rec := b.record(); rec.Phase == phaseReady && rec.Key == key {
			return b
		}
	}
	return nil
}

// onlyBoxOf is the box of a checkout and branch, whatever its lifetime, if there is exactly one.
func (t *table) onlyBoxOf(repo workspace.Repo, p project.Project) (only *box) {
	for _, b := range t.all() {
		rec := b.record()
		if rec.Phase != phaseReady || rec.Box.Directory != repo.Root || rec.Key != boxKey(rec.Box.Lifetime, repo, p) {
			continue
		}
		if only != nil {
			return nil
		}
		only = b
	}
	return only
}

// validName matches the names that boxes may have. A name is a host name in the box, a git remote
// of the checkout and a word on command lines, so it must need no quotes.
var validName = agentbox.Pattern(`^[a-z0-9][a-z0-9_.-]{0,62}$`)

// checkName refuses names that could be taken for an option, a path or an id.
func checkName(name string) error {
	if !validName().MatchString(name) {
		return agentbox.Errorf(agentbox.Invalid, "%q cannot name a box", name).
			WithHint("use lower-case letters, digits, dots, dashes and underscores, 63 at most, beginning with a letter or digit")
	}
	if _, err := agentbox.ParseBoxID(name); err == nil {
		return agentbox.Errorf(agentbox.Invalid, "%q looks like a box id", name).WithHint("choose another name")
	}
	return nil
}

// notInNames matches what is replaced when a name is made from a branch or directory.
var notInNames = agentbox.Pattern(`[^a-z0-9]+`)

// freeName makes a name from parts, with a number if the name is taken. The caller holds
// maker.naming until the box is in the table, else two boxes could get one name. 40 characters
// leave room for the number within the limits of git and host names.
func (t *table) freeName(parts ...string) string {
	base := strings.Trim(notInNames().ReplaceAllString(strings.ToLower(strings.Join(parts, "-")), "-"), "-")
	if len(base) > 40 {
		base = strings.Trim(base[:40], "-")
	}
	// Nothing valid is left.
	if checkName(base) != nil {
		base = "box"
	}
	name := base
	for n := 2; t.nameTaken(name); n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	return name
}

func (t *table) checkFree(name string) error {
	if !t.nameTaken(name) {
		return nil
	}
	return agentbox.Errorf(agentbox.Exists, "the name %s is taken", name).WithHint("agentbox ls shows who has it")
}

// nameTaken tells whether a box has a name, also one that is being made.
func (t *table) nameTaken(name string) bool {
	for _, b := range t.all() {
		if b.record().Box.Name == name {
			return true
		}
	}
	return false
}
