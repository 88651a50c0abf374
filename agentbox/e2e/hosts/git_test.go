package hosts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNewerGit works on repositories of a git that is newer than the one in the box, with what only it
// makes: as on a machine whose distribution is a year ahead.
func TestNewerGit(t *testing.T) {
	root := makeRoot(t, "testing", "git")
	bin, err := filepath.Abs("../../../bin/agentbox")
	need(t, err)
	git := newerGit(t, root)
	env := []string{
		"AGENTBOX_HOME=" + filepath.Join(cache(t), "home"), "AGENTBOX_POOL=0", "PATH=" + git + ":" + os.Getenv("PATH"),
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
	}
	for name, setup := range map[string]string{
		"reftable":           `git init -q -b main --ref-format=reftable . && git commit -q --allow-empty -m first && git branch side`,
		"relative worktrees": `git init -q -b main ../main && git -C ../main commit -q --allow-empty -m first && git -C ../main worktree add -q --relative-paths "$PWD" -b side`,
	} {
		t.Run(name, func(t *testing.T) {
			repo := filepath.Join(t.TempDir(), "repo")
			need(t, os.Mkdir(repo, 0o755))
			run(t, repo, env, "sh", "-ec", setup)
			t.Cleanup(func() {
				cmd := exec.Command(bin, "rm", "--force", "-q")
				cmd.Dir, cmd.Env = repo, append(os.Environ(), env...)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			})
			run(t, repo, env, bin, "up", "-q", "--isolation", "gvisor", "--", "sh", "-ec",
				`git fsck && test -z "$(git status --porcelain)"; echo one >one; git add one; git commit -qm "in the box"; git checkout -q -b other; git commit -q --allow-empty -m "on another"`)
			run(t, repo, env, bin, "pull")
			cmd := exec.CommandContext(t.Context(), filepath.Join(git, "git"), "log", "--all", "--topo-order", "--format=%s")
			cmd.Dir, cmd.Env = repo, append(os.Environ(), env...)
			out, err := cmd.CombinedOutput()
			if err != nil || string(out) != "on another\nin the box\nfirst\n" {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	run(t, "", env, bin, "daemon", "stop")
}

// newerGit makes a directory with the git of a root, for PATH. It runs with its own libraries on this
// machine's files.
func newerGit(t *testing.T, root string) string {
	t.Helper()
	dir := t.TempDir()
	script := func(name, text string) {
		need(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o755))
	}
	loader, err := filepath.Glob(filepath.Join(root, "lib64/ld-linux-*"))
	if err != nil || len(loader) != 1 {
		t.Fatalf("%v, %v", loader, err)
	}
	libraries, err := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu"))
	need(t, err)
	script("git", "export GIT_EXEC_PATH="+dir+" GIT_TEMPLATE_DIR="+root+"/usr/share/git-core/templates\n"+
		"exec "+loader[0]+" --library-path "+strings.Join(libraries, ":")+" "+root+"/usr/bin/git \"$@\"\n")
	// The programs that git starts by their own names.
	for _, name := range []string{"upload-pack", "receive-pack", "index-pack", "pack-objects"} {
		script("git-"+name, "exec "+dir+"/git "+name+" \"$@\"\n")
	}
	return dir
}
