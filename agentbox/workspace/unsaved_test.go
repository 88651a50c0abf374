package workspace_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"agentbox/agentbox/environment"
	"agentbox/agentbox/snapshot"
	"agentbox/agentbox/workspace"
)

// guest is a box that is a directory of this machine. It reads no answer.
type guest struct{ snapshot.Guest }

func (guest) Exec(ctx context.Context, c environment.Command) (environment.Status, error) {
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = c.Dir, c.Stdout, os.Stderr, os.Environ()
	for k, v := range c.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	return environment.Status{}, cmd.Run()
}

// pulled brings all files of the copy into the checkout as the last pull's ref.
const pulled = `cp -a ../copy ../third; cd ../third; git add -A; git commit -q -m pulled; cd ../repo; git fetch -q ../third HEAD:refs/agentbox/pulled/b`

// nested makes a repository with a submodule, which has one, and with another repository.
const nested = `sub; base; git submodule --quiet add ../sub sub; git submodule --quiet update --init --recursive
	git init -q 'odd é/& %d'; (cd 'odd é/& %d'; ident; echo o >o; git add .; git commit -q -m o); git add . 2>/dev/null; git commit -q -m nested`

// tops fetches the commit that a pull makes of the work tree .w/feat of the copy.
const tops = `cd ../copy/.w/feat; git add -A; c=$(GIT_AUTHOR_NAME=agentbox GIT_AUTHOR_EMAIL=agentbox@localhost GIT_COMMITTER_NAME=agentbox GIT_COMMITTER_EMAIL=agentbox@localhost GIT_AUTHOR_DATE='@5 +0000' GIT_COMMITTER_DATE='@5 +0000' \
	git commit-tree -p HEAD -m 'Uncommitted work of b' $(git write-tree)); git branch pulled $c; cd ../../../repo; git fetch -q ../copy pulled:pulled; git -C ../copy branch -q -D pulled`

// commit makes one in the copy.
const commit = "git commit -q --allow-empty -m new"

// TestUnsaved compares a copy of a checkout, as a box has it, with the checkout.
func TestUnsaved(t *testing.T) {
	isolateGit(t)
	for name, c := range map[string]struct {
		before, inside, outside string // run in the checkout, then in the copy, then in the checkout
		commits, files          int
	}{
		"nothing was done":                        {"base", ":", ":", 0, 0},
		"dirty from the start":                    {"base; echo x >>file; echo y >new", ":", ":", 0, 0},
		"a commit":                                {"base", "echo x >new && git add new && git commit -q -m new", ":", 1, 0},
		"a commit that was fetched":               {"base", "echo x >new && git add new && git commit -q -m new", "git fetch -q ../copy && git merge -q FETCH_HEAD", 0, 0},
		"commits on a branch of its own":          {"base", "git checkout -q -b side && git commit -q --allow-empty -m 1 && git commit -q --allow-empty -m 2 && git checkout -q -", ":", 2, 0},
		"a commit on no branch":                   {"base", "git checkout -q --detach && git commit -q --allow-empty -m adrift", ":", 1, 0},
		"a stash":                                 {"base; echo base >file; git add file; git commit -q -m file", "echo x >>file && git stash -q", ":", 2, 0},
		"two stashes":                             {"base", "export GIT_AUTHOR_DATE=2030-01-01T00:00:00Z GIT_COMMITTER_DATE=2030-01-01T00:00:00Z; echo x >>a.txt && git stash -q && echo y >>a.txt && git stash -q", ":", 3, 0},
		"stashes that the checkout has":           {"base; echo x >>a.txt; git stash -q; echo y >>a.txt; git stash -q", ":", ":", 0, 0},
		"a commit that only a tag has":            {"base", "git checkout -q --detach && git commit -q --allow-empty -m tagged && git tag t && git checkout -q -", ":", 1, 0},
		"an old commit that only a work tree has": {"base", "git worktree add -q --detach ../tree && cd ../tree && GIT_COMMITTER_DATE=2001-01-01T00:00:00Z git commit -q --allow-empty -m old", ":", 1, 0},
		"an old commit on many new ones": {"base", "c=$(git rev-parse HEAD); for i in $(seq " + strconv.Itoa(workspace.MaxCommits) + "); do printf 'commit refs/heads/many\nmark :%d\ncommitter a <a> 4000000000 +0000\ndata 0\n%s\n' $i \"$([ $i -gt 1 ] || echo from $c)\"; done | git fast-import --quiet && git checkout -q many && GIT_COMMITTER_DATE=2001-01-01T00:00:00Z git commit -q --allow-empty -m old",
			"git fetch -q ../copy && git branch many FETCH_HEAD~1", 1, 0},
		"objects without a ref":              {"base", commit, "git fetch -q ../copy", 1, 0},
		"objects of a pull without a branch": {"base", commit, "git fetch -q ../copy HEAD:refs/agentbox/pulled/b", 1, 0},
		"objects that only a log has":        {"base", commit, "git fetch -q ../copy && git reset -q --hard FETCH_HEAD && git reset -q --hard HEAD~1", 1, 0},
		"a commit that a remote has":         {"base", commit, "git fetch -q ../copy HEAD:refs/remotes/b/main", 0, 0},
		"a commit that a tag has":            {"base", commit, "git fetch -q ../copy && git tag -a -m t t FETCH_HEAD", 0, 0},
		"a commit that is checked out":       {"base", commit, "git fetch -q ../copy && git checkout -q FETCH_HEAD", 0, 0},
		"a commit that a work tree has":      {"base", commit, "git fetch -q ../copy && git worktree add -q --detach ../tree FETCH_HEAD", 0, 0},
		"a commit in the stash":              {"base", commit, "git fetch -q ../copy && git checkout -q FETCH_HEAD && echo x >>a.txt && git stash -q && git checkout -q -; echo y >>a.txt && git stash -q", 0, 0},
		"a ref to nothing":                   {"base", commit, "git fetch -q ../copy && mkdir -p .git/refs/heads/x && echo 1111111111111111111111111111111111111111 >.git/refs/heads/x/y", 1, 0},
		"a commit that the checkout amended": {"base", ":", "git commit -q --amend -m other", 0, 0},
		"and one on top of it":               {"base", commit, "git fetch -q ../copy; git commit -q --amend -m other", 1, 0},
		"a file of the same size and time":   {"base; git config core.trustctime false; git config core.checkStat minimal; touch -d @1000000000 a.txt; git update-index --refresh", "printf 'two\none\n' >a.txt; touch -d @1000000000 a.txt .git/index", ":", 0, 1},
		"files to overlook":                  {"base; git update-index --assume-unchanged a.txt run.sh", "echo x >>a.txt", ":", 0, 1},
		"files to skip":                      {"base; git update-index --skip-worktree a.txt run.sh dir/b.txt; rm dir/b.txt", "echo x >>a.txt; rm run.sh", ":", 0, 1},
		"files to overlook and skip":         {"base; echo x >'a b'; git add .; git commit -q -m b; git update-index --assume-unchanged 'a b' run.sh; git update-index --skip-worktree 'a b' run.sh", "echo x >>'a b'", ":", 0, 1},
		"a sparse checkout":                  {"base; git sparse-checkout set --cone dir", ":", ":", 0, 0},
		"files outside of it":                {"base; git sparse-checkout set --no-cone /dir/", "mkdir other new; echo x >other/o.txt; echo x >new/n; rm dir/b.txt", ":", 0, 3},
		"outside of a sparse index":          {"base; git sparse-checkout set --cone --sparse-index dir", "mkdir other; echo x >other/n", ":", 0, 1},
		"files":                              {"base", "echo x >new && mkdir d && echo y >d/other", ":", 0, 2},
		"some of them the checkout has too":  {"base", "echo x >new; echo y >another; chmod +x a.txt; rm run.sh", "echo x >new; rm run.sh", 0, 2},
		"odd names":                          {"base", "echo x >'a b'; echo x >'tab\there'; printf x >\"$(printf 'new\\nline')\"", "echo x >'a b'", 0, 2},
		"files that the checkout has too":    {"base", "echo x >new", "echo x >new", 0, 0},
		"the checkout moved on":              {"base", ":", "git commit -q --allow-empty -m on; echo z >z", 0, 0},
		"ignored files are nobody's loss":    {"base; echo log >.gitignore; git add .; git commit -q -m i", "echo x >log", ":", 0, 0},
		"files that were pulled":             {"base", "echo x >new; rm a.txt; ln -s run.sh link; echo x >'a b'", pulled + "; git branch pulled refs/agentbox/pulled/b", 0, 0},
		"and changed since":                  {"base", "echo x >new; rm a.txt", pulled + "; git branch pulled refs/agentbox/pulled/b; cd ../copy; echo y >new; chmod -x run.sh; cd ../repo", 0, 2},
		"pulled to a branch that is gone":    {"base", "echo x >new; rm a.txt", pulled, 0, 2},
		"a file of a submodule":              {nested, "echo x >sub/new; echo x >>sub/s; (cd 'odd é/& %d'; echo x >'tab\\there')", ":", 0, 3},
		"a commit in one that is committed":  {nested, "(cd sub; ident; git commit -q --allow-empty -m new); git commit -q -a -m sub", "git fetch -q --no-recurse-submodules ../copy HEAD:pulled", 1, 0},
		"and pulled":                         {nested, "(cd sub; ident; git commit -q --allow-empty -m new); git commit -q -a -m sub", "git fetch -q --no-recurse-submodules ../copy HEAD:refs/agentbox/pulled/b; git branch pulled refs/agentbox/pulled/b", 1, 0},
		"and fetched":                        {nested, "(cd sub; ident; git commit -q --allow-empty -m new); git commit -q -a -m sub", "git fetch -q --no-recurse-submodules ../copy HEAD:pulled; cd sub; git fetch -q ../../copy/sub HEAD:pulled", 0, 0},
		"and fetched with the box":           {nested, "(cd sub; ident; git commit -q --allow-empty -m new); git commit -q -a -m sub", "git fetch -q --no-recurse-submodules ../copy HEAD:pulled; git fetch -q ../copy/sub HEAD:refs/agentbox/b/sub/HEAD", 0, 0},
		"a submodule that moved on here":     {nested, ":", "cd sub; ident; git commit -q --allow-empty -m new", 0, 0},
		"one that is gone here":              {nested, ":", "git submodule --quiet deinit -f --all", 1, 0},
		"of one in another":                  {nested, "echo x >>sub/nested/ss", ":", 0, 1},
		"of one that the checkout has too":   {nested + "; echo x >>sub/s; echo x >sub/nested/new", ":", ":", 0, 0},
		"a commit in a submodule":            {nested, "(cd sub; ident; git commit -q --allow-empty -m new)", ":", 1, 1},
		"a work tree":                        {"base; echo .w >>.git/info/exclude", "git worktree add -q .w/feat -b feat; (cd .w/feat; echo x >n; echo x >>a.txt; git commit -qam feat)", ":", 1, 1},
		"that was fetched and pulled":        {"base; echo .w >>.git/info/exclude", "git worktree add -q .w/feat -b feat; (cd .w/feat; echo x >n; GIT_COMMITTER_DATE='@5 +0000' git commit -q --allow-empty -m feat)", tops, 0, 0},
		"a repository that is ignored":       {"base; echo lib >>.git/info/exclude", "git init -q lib; (cd lib; ident; echo x >x; git add .; git commit -qm x; echo y >y; git stash -qu; echo z >z)", ":", 4, 1},
		"a repository without a commit":      {"git init -q repo; cd repo; ident", "echo x >new", ":", 0, 1},
		"without a commit and nothing done":  {"git init -q repo; cd repo; ident; echo x >new", ":", ":", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := build(t, c.before+"; git rev-parse -q --verify HEAD >../began || true; cd .. ; cp -a repo copy; cd copy; "+c.inside+"; cd ../repo; "+c.outside)
			index, _ := os.ReadFile(filepath.Join(dir, "repo/.git/index"))
			began, err := os.ReadFile(filepath.Join(dir, "began"))
			if err != nil {
				t.Fatal(err)
			}
			work, err := snapshot.Unsaved(t.Context(), guest{}, snapshot.Request{
				Ref: "refs/agentbox/boxes/b", Base: strings.TrimSpace(string(began)), Checkout: filepath.Join(dir, "repo"), Dir: filepath.Join(dir, "copy"),
			}, "refs/agentbox/pulled/b")
			if err != nil || len(work.Commits) != c.commits || len(work.Files) != c.files || len(work.Missing) > 0 {
				t.Errorf("%q, %v; want %d commits and %d files", work, err, c.commits, c.files)
			}
			if after, _ := os.ReadFile(filepath.Join(dir, "repo/.git/index")); string(after) != string(index) {
				t.Error("the index of the checkout has changed")
			}
		})
	}
}
