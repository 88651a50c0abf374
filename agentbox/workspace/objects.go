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

// rounds bounds how often the objects are listed again because git repacked them meanwhile. One
// repack is common, as git gc runs by itself; a repository that is always being repacked is an
// error.
const rounds = 5

// objects copies the object store including its alternates, so that the copy needs none. Objects
// never change, but a repack moves them between files: when a file disappears between listing
// and copying, the new ones are copied as well. If nothing is borrowed, the multi-pack-index and
// commit-graphs are copied too, since they save git much work; they are dropped after a repack.
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
			listed, err := s.listObjects(store, to, len(stores) == 1, have)
			if err != nil {
				return err
			}
			jobs = append(jobs, listed...)
		}
		all, err := s.copyAll(ctx, jobs)
		if err != nil {
			return err
		}
		// Every listed object is here, and with it everything that the refs and the index name.
		if !all.vanished {
			return s.lfs(ctx, repo, dst)
		}
		stale(to)
		s.dropBulk(to)
	}
	return rewrittenError(repo)
}

// rewrittenError is about a repository whose objects are never where they were listed.
func rewrittenError(repo Repo) error {
	return agentbox.Errorf(agentbox.Conflict, "the objects of %s are being rewritten all the time", repo.CommonDir).
		WithHint("wait for git gc or git repack to end, then try again")
}

// stale removes the files that describe other object files. After a repack they may name files
// that were not copied; git regenerates them as needed.
func stale(objects string) {
	os.Remove(filepath.Join(objects, "pack", "multi-pack-index"))
	os.Remove(filepath.Join(objects, "info", "commit-graph"))
	os.RemoveAll(filepath.Join(objects, "info", "commit-graphs"))
}

// maxStores bounds how many stores a repository may borrow from: alternates may form a ring.
const maxStores = 100

// stores returns the object store of a repository, followed by every store it borrows from,
// without duplicates. Paths are absolute with links resolved. A store outside of the checkout
// fails unless the user allows it, before anything is copied.
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

// checkBorrowed fails for a store outside of the checkout unless the user allows it. Otherwise a
// repository could bring the history of any repository on this host into its box.
func (s *stager) checkBorrowed(ctx context.Context, repo Repo, store string) error {
	if slices.ContainsFunc(s.area(), func(dir string) bool { return within(dir, store) }) {
		return nil
	}
	if ok, err := isStoreAllowed(ctx, store); ok || err != nil {
		return err
	}
	return storeNotAllowedError(repo.Root, store)
}

// alternates returns the paths in a store's info/alternates file, which may be relative to the
// store (gitrepository-layout(5)).
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
	// stored matches the loose objects and packs in a store, and the directories of both,
	// relative to it.
	stored = agentbox.Pattern(`^([0-9a-f]{2}(/[0-9a-f]{38}([0-9a-f]{24})?)?|pack(/pack-[^/]*)?)$`)
	// spanning matches the files that describe several packs or commits; they are valid only if
	// nothing is borrowed.
	spanning = agentbox.Pattern(`^(pack/multi-pack-index[^/]*|info(/commit-graph|/commit-graphs(/[^/]*)?)?)$`)
)

// listObjects returns copy jobs for the files of one store that the copy lacks. have records the
// names already handled: names derive from contents, so the first store that has one supplies
// it. alone means that nothing is borrowed. A directory that is a link is omitted.
func (s *stager) listObjects(store, to string, alone bool, have map[string]bool) ([]job, error) {
	w := walker{dst: to, name: ".git/objects/", link: true, bare: s.opts.Bulk != nil}
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

// lfs copies the large files that Git LFS has fetched, which are named after their content.
func (s *stager) lfs(ctx context.Context, repo Repo, dst string) error {
	w := walker{dst: dst, name: ".git/", link: true, bare: s.opts.Bulk != nil}
	if err := w.addAll(repo.CommonDir, []string{"lfs/objects"}); err != nil {
		return err
	}
	_, err := s.copyAll(ctx, w.jobs)
	return err
}
