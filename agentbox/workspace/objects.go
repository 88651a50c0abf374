package workspace

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/git"
)

// rounds bounds how often the objects are listed again because git repacked them meanwhile. Once is
// common, as git gc runs by itself; a repository that never rests is an error.
const rounds = 5

// objects copies the object store, alternates included, so that the copy needs none. Objects never
// change, but a repack moves them from one file to another: when one has gone between listing and
// copying, what is new is copied too. Where nothing is borrowed the multi-pack-index and
// commit-graphs come along, as they save git much work; after a repack in between they are dropped.
func (s *stager) objects(ctx context.Context, repo Repo, dst string) error {
	stores, err := s.stores(ctx, repo)
	if err != nil {
		return err
	}
	to := filepath.Join(dst, "objects")
	for range rounds {
		var jobs []job
		have := map[string]bool{}
		for _, store := range stores {
			listed, err := listObjects(store, to, len(stores) == 1, have)
			if err != nil {
				return err
			}
			jobs = append(jobs, listed...)
		}
		all, err := s.copyAll(ctx, jobs)
		if err != nil {
			return err
		}
		// Every object that was listed is here, so all that refs and index name is.
		if !all.vanished {
			return s.lfs(ctx, repo, dst)
		}
		stale(to)
	}
	return agentbox.Errorf(agentbox.Conflict, "the objects of %s are being rewritten all the time", repo.CommonDir).
		WithHint("wait for git gc or git repack to end, then try again")
}

// stale removes the files that describe other object files: after a repack they may name some that
// were not copied. git makes them again when it wants to.
func stale(objects string) {
	os.Remove(filepath.Join(objects, "pack", "multi-pack-index"))
	os.Remove(filepath.Join(objects, "info", "commit-graph"))
	os.RemoveAll(filepath.Join(objects, "info", "commit-graphs"))
}

// maxStores bounds how many stores a repository may borrow from. A chain can be endless when each
// store that is named is new.
const maxStores = 100

// stores is the object store of a repository and every one that it borrows from, each once. One
// that is not part of the checkout must be allowed by the user. They are absolute, links resolved;
// the first is the repository's own. It fails before anything is copied from one that is not
// allowed.
func (s *stager) stores(ctx context.Context, repo Repo) ([]string, error) {
	stores := []string{filepath.Join(repo.CommonDir, "objects")}
	for i := 0; i < len(stores); i++ {
		lines, err := alternates(stores[i])
		if err != nil {
			return nil, err
		}
		for _, line := range lines {
			store, err := filepath.EvalSymlinks(absolute(line, stores[i]))
			if err != nil {
				s.note("objects borrowed from %s are missing there", line)
				continue
			}
			if slices.Contains(stores, store) {
				continue
			}
			if err := s.checkBorrowed(ctx, repo, store); err != nil {
				return nil, err
			}
			if stores = append(stores, store); len(stores) > maxStores {
				return nil, agentbox.Errorf(agentbox.Invalid, "%s borrows objects from more than %d places", repo.Root, maxStores)
			}
		}
	}
	return stores, nil
}

// checkBorrowed fails for a store outside of the checkout unless the user allowed it: a repository
// could otherwise put any repository's history of this host into its box.
func (s *stager) checkBorrowed(ctx context.Context, repo Repo, store string) error {
	if slices.ContainsFunc(s.area(), func(dir string) bool { return within(dir, store) }) {
		return nil
	}
	if ok, err := mayBorrow(ctx, store); ok || err != nil {
		return err
	}
	return borrowed(repo.Root, store)
}

// alternates are the lines of the file in which a store names others. Lines are paths, relative to
// the store; gitrepository-layout(5) has the format.
func alternates(store string) ([]string, error) {
	path := filepath.Join(store, "info", "alternates")
	data, err := git.ReadPlain(path, maxPointer)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, unreadable(path, err)
	}
	var lines []string
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

var (
	// What a store has, relative to it: loose objects and packs, with the directories of both.
	stored = agentbox.Pattern(`^([0-9a-f]{2}(/[0-9a-f]{38}([0-9a-f]{24})?)?|pack(/pack-[^/]*)?)$`)
	// What spans packs and commits, and stays true only where nothing is borrowed.
	spanning = agentbox.Pattern(`^(pack/multi-pack-index[^/]*|info(/commit-graph|/commit-graphs(/[^/]*)?)?)$`)
)

// listObjects gives the files of one store that the copy does not have. have holds the names that
// are taken care of: the first store that has one gives it, as names are of contents. alone tells
// that nothing is borrowed. A directory that is a link is left out.
func listObjects(store, to string, alone bool, have map[string]bool) ([]job, error) {
	w := walker{dst: to, name: ".git/objects/", link: true}
	w.skip = func(rel string, isDir bool) bool {
		if !stored().MatchString(rel) && !(alone && spanning().MatchString(rel)) {
			return true
		}
		if isDir {
			return false
		}
		known := have[rel] || !strings.Contains(rel, "/") || exists(filepath.Join(to, rel))
		have[rel] = true
		return known
	}
	entries, err := git.ReadDir(store)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, unreadable(store, err)
	}
	for _, e := range entries {
		if err := w.add(store, e.Name(), e.IsDir()); err != nil {
			return nil, err
		}
	}
	return w.jobs, nil
}

// lfs copies the large files Git LFS has fetched. They are named by their content, as objects are.
func (s *stager) lfs(ctx context.Context, repo Repo, dst string) error {
	w := walker{dst: dst, name: ".git/", link: true}
	if err := w.addAll(repo.CommonDir, []string{"lfs/objects"}); err != nil {
		return err
	}
	_, err := s.copyAll(ctx, w.jobs)
	return err
}
