package snapshot

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox/git"
	"agentbox/agentbox/workspace"
)

// findOwn sets f.own: the trees beside the workspace and the refs that the checkout lacks, each
// commit once. A commit counts as there if its checkout keeps it, or the same repository in the
// checkout, or if the box began with it (base). A tree whose files are all the same there is not the
// box's either. Of f.commits it leaves the ones that are not there. repo is nil for a checkout that
// is gone; then everything is the box's own.
func (f *facts) findOwn(ctx context.Context, repo *workspace.Repo, base string) error {
	f.own = f.beside()
	if repo == nil {
		return nil
	}
	repos := userRepos{}
	defer repos.close()
	if err := repos.ask(ctx, *f, *repo, base); err != nil {
		return err
	}
	f.commits = slices.DeleteFunc(f.commits, func(c commit) bool { return repos.know(c.path, c.ID) })
	var own []Branch
	for _, b := range f.own {
		if b.tree != nil && !repos.know(b.path, b.Commit) {
			same, err := repos["."].hasFiles(ctx, *b.tree)
			if err != nil {
				return err
			}
			if same {
				b.Commit, b.Files, b.tree = b.tree.head, 0, nil
			}
		}
		if b.Commit != "" && !repos.know(b.path, b.Commit) {
			own = append(own, b)
		}
	}
	f.own = own
	return nil
}

// userRepos are the user's repositories that may keep what a box has, by their place in the
// workspace; the checkout itself is ".".
type userRepos map[string]*userRepo

func (u userRepos) close() {
	for _, one := range u {
		one.done()
	}
}

// ask opens the checkout, and each repository in it that may have what the checkout lacks, and asks
// them for what f names.
func (u userRepos) ask(ctx context.Context, f facts, repo workspace.Repo, base string) error {
	ids := map[string][]string{}
	name := func(path, id string) {
		if id != "" {
			ids[path] = append(ids[path], id)
			if path != "." {
				ids["."] = append(ids["."], id)
			}
		}
	}
	for _, b := range f.own {
		if name(b.path, b.Commit); b.tree != nil {
			name(b.path, b.tree.head)
		}
	}
	for _, c := range f.commits {
		name(c.path, c.ID)
	}
	main, err := openUserRepo(ctx, repo, ids["."], base)
	if err != nil {
		return err
	}
	u["."] = main
	for path, ids := range ids {
		if !slices.ContainsFunc(ids, func(id string) bool { return !main.kept[id] }) || path == "." {
			continue
		}
		if nested, ok := workspace.Nested(ctx, repo, path); ok {
			if one, err := openUserRepo(ctx, nested, ids, ""); err == nil { // else it keeps nothing
				u[path] = one
			}
		}
	}
	return nil
}

// know reports whether the user has a commit of the box's repository at path.
func (u userRepos) know(path, id string) bool {
	there := u[path]
	return u["."].kept[id] || there != nil && (there.kept[id] || there.adrift[id])
}

// userRepo is one of these repositories.
type userRepo struct {
	repo         workspace.Repo
	view         *git.View
	done         func() error
	kept, adrift map[string]bool // commits
}

// openUserRepo opens a repository and finds out which of the commits it keeps.
func openUserRepo(ctx context.Context, repo workspace.Repo, ids []string, base string) (*userRepo, error) {
	view, done, err := workspace.Objects(ctx, repo)
	if err != nil {
		return nil, err
	}
	u := &userRepo{repo, view, done, map[string]bool{}, map[string]bool{}}
	unkept, err := workspace.Unkept(ctx, view, repo, ids, base)
	if err != nil {
		return nil, errors.Join(err, done())
	}
	for _, id := range ids {
		u.kept[id] = true
	}
	for _, id := range unkept {
		u.kept[id] = false
	}
	for _, id := range workspace.Adrift(repo) {
		u.adrift[id] = true
	}
	return u, nil
}

// hasFiles reports whether the checkout has all changed files of a tree in the same form.
func (u *userRepo) hasFiles(ctx context.Context, t tree) (bool, error) {
	if len(t.changed) < t.files || filepath.IsAbs(t.path) {
		return false, nil
	}
	differ, err := workspace.Differing(ctx, u.view, u.repo, t.path, t.changed)
	return len(differ) == 0, err
}

// beside returns the trees and refs beside the workspace, each commit once: under the name of a
// branch if it has one.
func (f *facts) beside() []Branch {
	var all []Branch
	seen := map[string]int{} // the index in all, or -1
	seen[f.trees[0].head], seen[f.trees[0].top] = -1, -1
	for i, t := range f.trees[1:] {
		b := branch(t.top, t.ref, t.path)
		if b.Files, b.tree = t.files, &f.trees[i+1]; t.ref == "HEAD" {
			b.Name = "detached"
		}
		seen[t.head], seen[t.top] = -1, -1
		all = append(all, b)
	}
	rank := func(b Branch) int { return strings.Count(b.ref, "refs/") + strings.Count(b.ref, "refs/heads/") }
	for _, b := range f.refs {
		switch at, dup := seen[b.Commit]; {
		case !dup:
			seen[b.Commit] = len(all)
			all = append(all, b)
		case at >= 0 && rank(b) > rank(all[at]):
			all[at] = b
		}
	}
	return all
}

// leave moves what cannot be sent from f.own to f.missing: everything, unless all is set, or what
// belongs to a repository whose objects stay in the box, or are too many.
func (f *facts) leave(all bool) {
	if len(f.own) > maxAlso {
		f.own, f.missing = f.own[:maxAlso], append(f.missing, fmt.Sprintf("all branches, stashes and work trees but the first %d", maxAlso))
	}
	reasons := map[string]string{"shallow": "its history is incomplete there", "partial": "its history is incomplete there", "large": "its history is too large"}
	f.own = slices.DeleteFunc(f.own, func(b Branch) bool {
		why, stays := f.stays[b.path]
		if all && !stays {
			return false
		}
		reason := reasons[why]
		if reason == "" {
			reason = "it cannot be sent with the rest"
		}
		f.missing = note(f.missing, b.String()+": "+reason)
		return true
	})
}

// tips returns the commits that the host wants.
func (f *facts) tips() []string {
	tips := []string{f.trees[0].top}
	for _, b := range f.own {
		tips = append(tips, b.Commit)
	}
	if f.rest != "" {
		tips = append(tips, f.rest)
	}
	return tips
}
