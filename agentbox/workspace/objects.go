package workspace

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"agentbox/agentbox"
)

// rounds bounds how often the objects are listed again because git repacked them meanwhile.
const rounds = 5

// objects copies the object store, alternates included, so that the copy needs none. Objects never change, but a
// repack moves them from one file to another: when one has gone between listing and copying, what is new is copied too.
func (s *stager) objects(ctx context.Context, repo Repo, dst string) error {
	stores, err := alternates(filepath.Join(repo.CommonDir, "objects"))
	if err != nil {
		return err
	}
	to := filepath.Join(dst, "objects")
	for range rounds {
		var vanished atomic.Bool
		var jobs []job
		have := map[string]bool{}
		for _, store := range stores {
			if err := s.listObjects(store, to, len(stores) == 1, have, &jobs); err != nil {
				return err
			}
		}
		for i := range jobs {
			jobs[i].gone = &vanished
		}
		if _, err := s.copyAll(ctx, jobs, &s.stats.GitFiles, &s.stats.GitBytes); err != nil {
			return err
		}
		if !vanished.Load() {
			return s.lfs(ctx, repo, dst)
		}
		stale(to)
	}
	return agentbox.Errorf(agentbox.Conflict, "the objects of %s are being rewritten all the time", repo.CommonDir).
		WithHint("wait for git gc or git repack to end, then try again")
}

// stale removes the files that describe other object files: after a repack they may name some that were not copied.
func stale(objects string) {
	os.Remove(filepath.Join(objects, "pack", "multi-pack-index"))
	os.Remove(filepath.Join(objects, "info", "commit-graph"))
	os.RemoveAll(filepath.Join(objects, "info", "commit-graphs"))
}

// alternates is the store and every one it borrows from, each once.
func alternates(store string) ([]string, error) {
	stores := []string{store}
	seen := map[string]bool{store: true}
	for i := 0; i < len(stores); i++ {
		path := filepath.Join(stores[i], "info", "alternates")
		data, err := os.ReadFile(path)
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, unreadable(path, err)
		}
		for line := range strings.Lines(string(data)) {
			line = strings.TrimSuffix(line, "\n")
			if line == "" || line[0] == '#' {
				continue
			}
			if !filepath.IsAbs(line) {
				line = filepath.Join(stores[i], line)
			}
			if line = filepath.Clean(line); !seen[line] {
				seen[line] = true
				stores = append(stores, line)
			}
		}
	}
	return stores, nil
}

// listObjects adds the files of one store that the copy does not have. alone tells that nothing is borrowed: only then
// do the files that span packs and commits stay true.
func (s *stager) listObjects(store, to string, alone bool, have map[string]bool, jobs *[]job) error {
	entries, err := os.ReadDir(store)
	if gone(err) {
		s.note("objects borrowed from %s are missing there", store)
		return nil
	}
	if err != nil {
		return unreadable(store, err)
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case len(name) == 2 && strings.Trim(name, "0123456789abcdef") == "":
			err = addStore(store, to, name, have, jobs, func(n string) bool { return isHex(name + n) })
		case name == "pack":
			err = addStore(store, to, name, have, jobs, func(n string) bool {
				return strings.HasPrefix(n, "pack-") || alone && strings.HasPrefix(n, "multi-pack-index")
			})
		case name == "info" && alone:
			if err = addStore(store, to, "info", have, jobs, func(n string) bool { return n == "commit-graph" }); err == nil {
				err = addStore(store, to, "info/commit-graphs", have, jobs, func(string) bool { return true })
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addStore adds the files of one directory of a store.
func addStore(store, to, dir string, have map[string]bool, jobs *[]job, wanted func(name string) bool) error {
	entries, err := os.ReadDir(filepath.Join(store, dir))
	if gone(err) {
		return nil
	}
	if err != nil {
		return unreadable(filepath.Join(store, dir), err)
	}
	if err := os.MkdirAll(filepath.Join(to, dir), 0o755); err != nil {
		return unwritable(to, err)
	}
	for _, e := range entries {
		rel := dir + "/" + e.Name()
		if have[rel] || strings.HasSuffix(rel, ".lock") || !wanted(e.Name()) || e.IsDir() {
			continue
		}
		have[rel] = true
		if dst := filepath.Join(to, rel); !exists(dst) {
			*jobs = append(*jobs, job{src: filepath.Join(store, rel), dst: dst, name: ".git/objects/" + rel, link: true})
		}
	}
	return nil
}

// lfs copies the large files Git LFS has fetched. They are named by their content, as objects are.
func (s *stager) lfs(ctx context.Context, repo Repo, dst string) error {
	var jobs []job
	w := walker{dst: dst, jobs: &jobs}
	if err := w.add(repo.CommonDir, "lfs/objects"); err != nil {
		return err
	}
	for i := range jobs {
		jobs[i].link = true
	}
	_, err := s.copyAll(ctx, jobs, &s.stats.GitFiles, &s.stats.GitBytes)
	return err
}
