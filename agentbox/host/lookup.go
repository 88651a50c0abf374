package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sort"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/project"
	"agentbox/agentbox/workspace"
)

// boxKey says which directory and branch finds a box again, by the lifetime its workspace has. It
// is a digest in hex: a path would be one more thing to escape, and keys are only compared.
// Changing what goes into it would make every box that exists unfindable from its checkout.
func boxKey(lifetime agentbox.Lifetime, repo workspace.Repo, p project.Project) string {
	parts := []string{string(lifetime)}
	switch lifetime {
	// One of each project: no repository's box is entered for another's.
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

// find resolves a reference to a box. Only boxes that are ready exist for users. In order: a full
// id, a name, a unique beginning of an id of at least two digits. A name that is also the beginning
// of an id means the name. No reference at all means the box of ref.Directory.
func (t *table) find(ctx context.Context, ref api.BoxRef) (*box, error) {
	if ref.Box == "" {
		return t.findByDirectory(ctx, ref.Directory)
	}
	var byPrefix, byName []*box
	for _, b := range t.all() {
		rec := b.record()
		// A full id is certain and ends the search. Everything else waits until all were seen.
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

// ids are the ids of boxes, sorted, for a message.
func ids(boxes []*box) string {
	var out []string
	for _, b := range boxes {
		out = append(out, b.record().Box.ID.String())
	}
	sort.Strings(out)
	return strings.Join(out, ", ")
}

// findByDirectory finds the box of the branch that is checked out in dir, by the lifetime that the
// configuration has now.
func (t *table) findByDirectory(ctx context.Context, dir string) (*box, error) {
	repo, err := workspace.Describe(ctx, dir)
	if err != nil {
		return nil, err
	}
	p, err := project.Of(repo.Root)
	if err != nil {
		return nil, err
	}
	// The lifetime decides what the box of a directory is, and it is in the configuration.
	cfg, err := config.Load(ctx, dir)
	if err != nil {
		if b := t.onlyBoxOf(repo, p); b != nil {
			return b, nil // mistakes keep boxes from being made, not from being used
		}
		return nil, err
	}
	if b := t.byKey(boxKey(cfg.Lifetime, repo, p)); b != nil {
		return b, nil
	}
	return nil, agentbox.Errorf(agentbox.NotFound, "%s has no box for branch %s", repo.Root, repo.Branch).WithHint("agentbox up makes one")
}

// byKey is the ready box of a key, nil when there is none. There is one at most: up holds the lock
// of the key from looking to making.
func (t *table) byKey(key string) *box {
	for _, b := range t.all() {
		if rec := b.record(); rec.Phase == phaseReady && rec.Key == key {
			return b
		}
	}
	return nil
}

// onlyBoxOf is the box that was made of a checkout and branch, whatever the lifetime, if there is
// just one.
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

// validName is what a name may be: it is a host name in the box, a git remote of the checkout and a
// word on command lines, so it must need no quotes.
var validName = agentbox.Pattern(`^[a-z0-9][a-z0-9_.-]{0,62}$`)

// checkName refuses names that could be taken for something else: an option, a path, an id.
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

// notInNames is what a branch or directory may have and a name that is made of it has not.
var notInNames = agentbox.Pattern(`[^a-z0-9]+`)

// freeName makes a name from what the box is about, and a number if others have it. The caller
// holds maker.naming until the box is in the table, else two could get the same. 40 characters
// leave room for a number, and for what git and host names allow.
func (t *table) freeName(parts ...string) string {
	base := strings.Trim(notInNames().ReplaceAllString(strings.ToLower(strings.Join(parts, "-")), "-"), "-")
	if len(base) > 40 {
		base = strings.Trim(base[:40], "-")
	}
	// Nothing was left of it that may be a name.
	if checkName(base) != nil {
		base = "box"
	}
	name := base
	for n := 2; t.nameTaken(name); n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	return name
}

// checkFree refuses a name that another box has.
func (t *table) checkFree(name string) error {
	if !t.nameTaken(name) {
		return nil
	}
	return agentbox.Errorf(agentbox.Exists, "the name %s is taken", name).WithHint("agentbox ls shows who has it")
}

// nameTaken tells whether a box has a name, of any phase: one that is being made will have it in a
// moment.
func (t *table) nameTaken(name string) bool {
	for _, b := range t.all() {
		if b.record().Box.Name == name {
			return true
		}
	}
	return false
}
