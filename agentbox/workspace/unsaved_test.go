package workspace_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"agentbox/agentbox/workspace"
)

// pulled brings all files of the copy into the checkout as the last pull's ref.
const pulled = `cp -a ../copy ../third; cd ../third; git add -A; git commit -q -m pulled; cd ../repo; git fetch -q ../third HEAD:refs/agentbox/pulled/b`

// TestUnsaved compares a copy of a checkout, as a box has it, with the checkout.
func TestUnsaved(t *testing.T) {
	for name, c := range map[string]struct {
		before, inside, outside string // run in the checkout, then in the copy, then in the checkout
		commits, files          int
	}{
		"nothing was done":                  {"base", ":", ":", 0, 0},
		"dirty from the start":              {"base; echo x >>file; echo y >new", ":", ":", 0, 0},
		"a commit":                          {"base", "echo x >new && git add new && git commit -q -m new", ":", 1, 0},
		"a commit that was fetched":         {"base", "echo x >new && git add new && git commit -q -m new", "git fetch -q ../copy && git merge -q FETCH_HEAD", 0, 0},
		"commits on a branch of its own":    {"base", "git checkout -q -b side && git commit -q --allow-empty -m 1 && git commit -q --allow-empty -m 2 && git checkout -q -", ":", 2, 0},
		"a commit on no branch":             {"base", "git checkout -q --detach && git commit -q --allow-empty -m adrift", ":", 1, 0},
		"a stash":                           {"base; echo base >file; git add file; git commit -q -m file", "echo x >>file && git stash -q", ":", 2, 0},
		"files":                             {"base", "echo x >new && mkdir d && echo y >d/other", ":", 0, 2},
		"some of them the checkout has too": {"base", "echo x >new; echo y >another; chmod +x a.txt; rm run.sh", "echo x >new; rm run.sh", 0, 2},
		"odd names":                         {"base", "echo x >'a b'; echo x >'tab\there'; printf x >\"$(printf 'new\\nline')\"", "echo x >'a b'", 0, 2},
		"files that the checkout has too":   {"base", "echo x >new", "echo x >new", 0, 0},
		"the checkout moved on":             {"base", ":", "git commit -q --allow-empty -m on; echo z >z", 0, 0},
		"ignored files are nobody's loss":   {"base; echo log >.gitignore; git add .; git commit -q -m i", "echo x >log", ":", 0, 0},
		"files that were pulled":            {"base", "echo x >new; rm a.txt; ln -s run.sh link; echo x >'a b'", pulled + "; git branch pulled refs/agentbox/pulled/b", 0, 0},
		"and changed since":                 {"base", "echo x >new; rm a.txt", pulled + "; git branch pulled refs/agentbox/pulled/b; cd ../copy; echo y >new; chmod -x run.sh; cd ../repo", 0, 2},
		"pulled to a branch that is gone":   {"base", "echo x >new; rm a.txt", pulled, 0, 2},
		"a repository without a commit":     {"git init -q repo; cd repo; ident", "echo x >new", ":", 0, 1},
		"without a commit and nothing done": {"git init -q repo; cd repo; ident; echo x >new", ":", ":", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := build(t, c.before+"; cd .. ; cp -a repo copy; cd copy; "+c.inside+"; cd ../repo; "+c.outside)
			sh := exec.Command("sh", "-c", workspace.StateScript)
			sh.Dir = filepath.Join(dir, "copy")
			out, err := sh.Output()
			if err != nil {
				t.Fatal(err)
			}
			in, err := workspace.ReadState(out)
			if err != nil {
				t.Fatalf("%v in\n%s", err, out)
			}
			index, _ := os.ReadFile(filepath.Join(dir, "repo/.git/index"))
			repo, err := workspace.Describe(t.Context(), filepath.Join(dir, "repo"))
			if err != nil {
				t.Fatal(err)
			}
			work, err := workspace.Unsaved(t.Context(), repo, in, "refs/agentbox/pulled/b")
			if err != nil || len(work.Commits) != c.commits || len(work.Files) != c.files {
				t.Errorf("%q, %v; want %d commits and %d files", work, err, c.commits, c.files)
			}
			if after, _ := os.ReadFile(filepath.Join(dir, "repo/.git/index")); string(after) != string(index) {
				t.Error("the index of the checkout has changed")
			}
		})
	}
}

func TestInvalidState(t *testing.T) {
	for _, out := range []string{"", "commit x\n", "change 1 2 3\n"} {
		if s, err := workspace.ReadState([]byte(out)); err == nil {
			t.Errorf("%q is %+v", out, s)
		}
	}
	if _, err := workspace.Unsaved(t.Context(), workspace.Repo{Root: t.TempDir()}, workspace.State{Commits: []workspace.Commit{{ID: "--help"}}}, "refs/agentbox/pulled/b"); err == nil {
		t.Error("an option is taken for a commit")
	}
}
