package workspace_test

import (
	"context"
	"encoding/binary"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/source"
	"agentbox/agentbox/workspace"

	"crypto/sha1"

	"golang.org/x/sys/unix"
)

// lacks makes a repository with a remote from which git would fetch lazily what the index names and
// nobody has.
const lacks = `
lacks() {
	echo u >untracked; echo "*.o" >.gitignore; git add -f .gitignore; git update-index --skip-worktree .gitignore; rm .gitignore
	blob=$(git rev-parse :.gitignore); rm -f ".git/objects/$(echo $blob | cut -c1-2)/$(echo $blob | cut -c3-)"
	git config core.repositoryFormatVersion 1; git config extensions.partialClone e; git config remote.e.promisor true; git config remote.e.url "$1"
}
`

// programs are the keys of a configuration that start a program, with what it takes besides for git
// to need them. The program is CANARY, which leaves a mark.
var programs = []struct{ name, script string }{
	{"core.sshCommand", `lacks ssh://nowhere.example/x; git config core.sshCommand "$CANARY"`},
	{"core.gitProxy", `lacks git://127.0.0.1/x; git config core.gitProxy "$CANARY"`},
	{"ext protocol", `lacks "ext::$CANARY"; git config protocol.ext.allow always; git config protocol.allow always`},
	{"remote.uploadpack", `lacks "$PWD"; git config remote.e.uploadpack "$CANARY"; git config protocol.file.allow always`},
	{"remote.vcs", `lacks "$PWD"; mkdir -p ../path; ln -sf "$CANARY" ../path/git-remote-canary; git config remote.e.vcs canary`},
	{"credential.helper", `lacks http://127.0.0.1:1/x; git config credential.helper "!$CANARY"; git config credential.http://127.0.0.1:1.helper "!$CANARY"`},
	{"core.askPass", `lacks http://u@127.0.0.1:1/x; git config core.askPass "$CANARY"`},
	{"core.fsmonitor", `git config core.fsmonitor "$CANARY"`},
	{"core.fsmonitor, with an index that says so", `git config core.fsmonitor "$CANARY"; git update-index --fsmonitor || true; git status >/dev/null; rm -f "$MARK"`},
	{"core.hooksPath", `mkdir hooks; for h in post-index-change pre-auto-gc reference-transaction post-checkout pre-commit; do ln -s "$CANARY" hooks/$h; done; git config core.hooksPath "$PWD/hooks"`},
	{"hooks", `for h in post-index-change pre-auto-gc reference-transaction post-checkout pre-commit; do ln -s "$CANARY" .git/hooks/$h; done`},
	{"hooks of the configuration, since git 2.54", `for h in post-index-change pre-auto-gc reference-transaction post-checkout pre-commit; do git config --add hook.x.event $h; done; git config hook.x.command "$CANARY"`},
	{"core.pager and pager.*", `git config core.pager "$CANARY"; for v in ls-files config rev-parse status show-ref cat-file hash-object; do git config pager.$v "$CANARY"; done`},
	{"core.editor and sequence.editor", `git config core.editor "$CANARY"; git config sequence.editor "$CANARY"`},
	{"diff.external and textconv", `git config diff.external "$CANARY"; git config diff.x.command "$CANARY"; git config diff.x.textconv "$CANARY"; echo '* diff=x' >.gitattributes`},
	{"merge driver", `git config merge.x.driver "$CANARY"; echo '* merge=x' >.gitattributes`},
	{"filter", `git config filter.x.clean "$CANARY"; git config filter.x.smudge "$CANARY"; git config filter.x.required true; echo '* filter=x' >.gitattributes; echo changed >>a.txt`},
	{"filter.process", `git config filter.x.process "$CANARY"; git config filter.x.required true; echo '* filter=x' >.gitattributes; echo changed >>a.txt`},
	{"attributes of git's own directory", `git config filter.x.clean "$CANARY"; echo '* filter=x' >.git/info/attributes; echo changed >>a.txt`},
	{"include", `printf '[core]\n\tfsmonitor = %s\n' "$CANARY" >more; git config include.path "$PWD/more"; git config includeIf.gitdir:/.path "$PWD/more"`},
	{"alias", `for v in ls-files config rev-parse status show-ref cat-file hash-object; do git config alias.$v "!$CANARY"; done`},
	{"gpg.program", `git config gpg.program "$CANARY"; git config gpg.ssh.program "$CANARY"; git config log.showSignature true; git config commit.gpgSign true`},
	{"uploadpack.packObjectsHook", `git config uploadpack.packObjectsHook "$CANARY"`},
	{"core.alternateRefsCommand", `git config core.alternateRefsCommand "$CANARY"; echo ../../.git/objects >.git/objects/info/alternates`},
	{"submodule.update", `git config submodule.s.update "!$CANARY"; git config submodule.recurse true; printf '[submodule "s"]\n\tpath = s\n\turl = ./s\n\tupdate = !%s\n' "$CANARY" >.gitmodules`},
	{"interactive.diffFilter", `git config interactive.diffFilter "$CANARY"`},
	{"trace2", `git config trace2.eventTarget "$MARK"; git config trace2.normalTarget "$MARK"; git config trace2.perfTarget "$MARK"`},
	{"maintenance", `git config maintenance.auto true; git config gc.auto 1; git config gc.recentObjectsHook "$CANARY"`},
	{"browser, man and tools", `git config browser.x.cmd "$CANARY"; git config web.browser x; git config man.x.cmd "$CANARY"; git config difftool.x.cmd "$CANARY"; git config mergetool.x.cmd "$CANARY"`},
	{"core.worktree", `git config core.worktree "$OUTSIDE"`},
	{"config.worktree", `git config extensions.worktreeConfig true; printf '[core]\n\tfsmonitor = %s\n' "$CANARY" >.git/config.worktree`},
}

// TestHostileConfigurationRunsNothing plants each of them in a checkout, or in a repository inside
// it and a submodule's git directory, and does everything with it that agentbox does before there
// is a box.
func TestHostileConfigurationRunsNothing(t *testing.T) {
	isolateGit(t)
	ready := makeFixtures(t)
	for _, p := range programs {
		for where, script := range map[string]string{
			"checkout": `base; plant`,
			"inside":   `nested; plant; cd ../sub; mv .git gitfile; mv ../.git/modules/sub .git; sed -i /worktree/d .git/config; plant; mv .git ../.git/modules/sub; mv gitfile .git`,
		} {
			t.Run(p.name+"/"+where, func(t *testing.T) {
				t.Parallel()
				dir := tempDir(t)
				canary, mark := filepath.Join(dir, "canary"), filepath.Join(dir, "mark")
				write(t, canary, "#!/bin/sh\necho \"$0 $*\" >>"+mark+"\nexit 1\n", 0o755)
				write(t, filepath.Join(dir, "outside", "secret"), "secret", 0o644)
				runScript(t, dir, lacks+ready+"plant() { "+strings.TrimSuffix(p.script, ";")+"\n}\n"+script, "CANARY="+canary, "MARK="+mark, "OUTSIDE="+filepath.Join(dir, "outside"),
					"PATH="+filepath.Join(dir, "path")+":"+os.Getenv("PATH"))
				os.Remove(mark)
				runAllOperations(t, dir)
				if said, err := os.ReadFile(mark); err == nil {
					t.Errorf("the host ran: %s", said)
				}
			})
		}
	}
}

// makeFixtures makes what most attacks begin with once, and returns the words that copy it: base,
// nested, and other, which is another repository of the user's.
func makeFixtures(t *testing.T) string {
	t.Helper()
	dir := tempDir(t)
	runScript(t, dir, prelude+`(base); cp -a repo base; sub; cd repo; git submodule --quiet add ../sub sub; git commit -qm s; git init -q inner; cd inner; ident; echo i >i; echo a >a.txt
		git add .; git commit -qm i; cd ../..; mv repo nested; git init -q other; cd other; ident; echo `+hostSecret+` >stolen; git add .; git commit -qm secret`)
	return "set -e\nREADY=" + dir + `
		base() { cp -a $READY/base repo; cd repo; }
		nested() { cp -a $READY/nested repo; cd repo/inner; }
		other() { cp -a $READY/other "$OUTSIDE/other"; }
		`
}

// hangs is how long operations may take, beside many others on a busy machine, before they are taken
// to wait for something that never comes.
const hangs = 3 * time.Minute

// runAllOperations is what the host does with a checkout; that some of it fails on a hostile one is
// as it should be.
func runAllOperations(t *testing.T, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	defer cancel()
	repo, err := workspace.Describe(ctx, filepath.Join(dir, "repo"))
	if err != nil {
		if t.Log(err); ctx.Err() != nil {
			t.Errorf("it takes longer than %s: something is waited for", hangs)
		}
		return
	}
	copied := filepath.Join(dir, "copy")
	if _, err := workspace.Stage(ctx, repo, copied, workspace.Options{}); err != nil {
		t.Log(err)
	}
	store, err := source.OpenStore(filepath.Join(dir, "sources"))
	if err != nil {
		t.Fatal(err)
	}
	if captured, release, err := store.Capture(ctx, repo, "example.com/app"); err == nil {
		defer release()
		_, err = captured.Apply(ctx, filepath.Join(dir, "captured"), 0)
		t.Log(err)
	} else {
		t.Log(err)
	}
	has, err := workspace.HasFilesIn(ctx, repo, "dir")
	t.Log(has, err)
	branch, err := workspace.HasBranch(ctx, repo, "main")
	t.Log(branch, err)
	work, err := workspace.Unsaved(ctx, repo, []string{"100644 " + strings.Repeat("2", 40) + " a.txt", "160000 " + strings.Repeat("2", 40) + " inner"}, "refs/agentbox/pulled/b")
	t.Log(work, err, workspace.Adrift(repo), repo.Partial())
	for _, name := range []string{"inner", "dir", "../outside/other", "link", ""} {
		nested, ok := workspace.Nested(ctx, repo, name)
		t.Log(nested, ok)
	}
	t.Log(workspace.SetRef(ctx, repo, "refs/agentbox/pulled/b", repo.Commit))
	r := workspace.Remote{Name: "box", Box: "0123456789ab", Binary: "/usr/bin/agentbox"}
	t.Log(workspace.AddRemote(ctx, repo, r), workspace.RemoveRemote(ctx, repo, "box", ""))
	if ctx.Err() != nil {
		t.Errorf("it takes longer than %s: something is waited for", hangs)
	}
}

// ways are attempts to have the host read a file of its own, "secret", into a box.
var ways = []struct{ name, script string }{
	{"description is a link", `nested; ln -sf "$SECRET" .git/description`},
	{"every part is a link", `nested; for f in info/exclude info/attributes logs/HEAD FETCH_HEAD ORIG_HEAD COMMIT_EDITMSG packed-refs shallow config.worktree rr-cache; do ln -sf "$SECRET" .git/$f; done`},
	{"a branch is a link", `nested; ln -sf "$SECRET" .git/refs/heads/stolen`},
	{"HEAD is a link", `nested; ln -sf "$SECRET" .git/HEAD`},
	{"config is a link", `nested; printf '[x]\n\ty = canary-of-the-host\n' >"$SECRET"; ln -sf "$SECRET" .git/config`},
	{"the index is a link", `nested; ln -sf "$SECRET" .git/index`},
	{"a directory of refs is a link", `nested; mkdir ../../outside/heads; cp "$SECRET" ../../outside/heads/secret; ln -s "$OUTSIDE/heads" .git/refs/stolen`},
	{"objects is a link", `nested; rm -rf .git/objects; ln -s "$OUTSIDE/other/.git/objects" .git/objects`},
	{"a directory of objects is a link", `nested; for d in $(ls "$OUTSIDE/other/.git/objects"); do rm -rf .git/objects/$d; ln -s "$OUTSIDE/other/.git/objects/$d" .git/objects/$d; done`},
	{"an object is a link", `nested; o=$(cd "$OUTSIDE/other/.git/objects"; ls -d ??/* | head -1); mkdir -p .git/objects/${o%/*}; ln -s "$OUTSIDE/other/.git/objects/$o" .git/objects/$o`},
	{"alternates", `nested; echo "$OUTSIDE/other/.git/objects" >.git/objects/info/alternates`},
	{"alternates, relative", `nested; echo "../../../../outside/other/.git/objects" >.git/objects/info/alternates`},
	{"alternates in two steps", `nested; mkdir -p hop/info; echo "$OUTSIDE/other/.git/objects" >hop/info/alternates; echo ../../hop >.git/objects/info/alternates`},
	{"alternates through a link", `nested; ln -s "$OUTSIDE/other/.git/objects" hop; echo ../../hop >.git/objects/info/alternates`},
	{"alternates of the checkout itself", `base; echo "$OUTSIDE/other/.git/objects" >.git/objects/info/alternates`},
	{"a gitfile", `nested; rm -rf .git; echo "gitdir: $OUTSIDE/other/.git" >.git`},
	{"a gitfile of the checkout itself", `base; rm -rf .git; echo "gitdir: $OUTSIDE/other/.git" >.git`},
	{".git is a link", `nested; rm -rf .git; ln -s "$OUTSIDE/other/.git" .git`},
	{".git of the checkout is a link", `base; rm -rf .git; ln -s "$OUTSIDE/other/.git" .git`},
	{"commondir", `nested; echo "$OUTSIDE/other/.git" >.git/commondir`},
	{"commondir of the checkout itself", `base; echo "$OUTSIDE/other/.git" >.git/commondir`},
	{"a linked work tree that is none", `base; git -C "$OUTSIDE/other" worktree add -q -f "$OUTSIDE/tree" 2>/dev/null; rm -rf .git; echo "gitdir: $OUTSIDE/other/.git/worktrees/tree" >.git`},
	{"core.worktree", `base; git config core.worktree "$OUTSIDE"`},
	{"core.worktree above the checkout", `base; git config core.worktree "$(dirname "$PWD")"`},
	{"modules is a link", `base; ln -s "$OUTSIDE" .git/modules`},
	{"a module is a link", `base; mkdir .git/modules; ln -s "$OUTSIDE/other/.git" .git/modules/x`},
	{"a module borrows", `base; mkdir -p .git/modules; cp -a .git ../m; mv ../m .git/modules/m; echo "$OUTSIDE/other/.git/objects" >.git/modules/m/objects/info/alternates`},
	{"an entry of the index above the checkout", `base; echo "100644 $(git rev-parse HEAD:a.txt) 0	@@/@@/outside/secret" | git update-index --index-info`},
	{"an entry of the index in .git", `base; cp "$SECRET" .git/private; echo "100644 $(git rev-parse HEAD:a.txt) 0	@git/private" | git update-index --index-info`},
	{"an entry of the index that is absolute", `base; p=$(echo "$SECRET" | sed 's,^/,@,'); echo "100644 $(git rev-parse HEAD:a.txt) 0	$p" | git update-index --index-info`},
	{"an entry of the index behind a link", `base; ln -s "$OUTSIDE" dir2; echo "100644 $(git rev-parse HEAD:a.txt) 0	dir2/secret" | git update-index --index-info`},
	{"HEAD names a file", `nested; echo "ref: refs/heads/../../../../../outside/secret" >.git/HEAD`},
	{"a path of .gitmodules", `base; printf '[submodule "../../../outside/other"]\n\tpath = ../outside/other\n\turl = ../outside/other\n' >.gitmodules; git add .gitmodules`},
	{".GIT", `nested; mv .git .GIT; ln -sf "$SECRET" .GIT/description; rm -rf .git; ln -s .GIT .git`},
	{"ignore rules that tell", `nested; git config core.excludesFile "$SECRET"; echo x >canary-of-the-host; echo x >control`},
	{"ignore rules of the checkout that tell", `base; git config core.excludesFile "$SECRET"; echo x >canary-of-the-host; echo x >control`},
	{"a file in a git directory that git does not keep", `nested; ln -s "$OUTSIDE" .git/lfs; mkdir -p ../../outside/objects; cp "$SECRET" ../../outside/objects/x`},
}

const hostSecret = "canary-of-the-host"

// TestOutsideIsNotRead tries each of them and looks for the secret, and for the other
// repository, in the copy.
func TestOutsideIsNotRead(t *testing.T) {
	isolateGit(t)
	ready := makeFixtures(t)
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			dir := tempDir(t)
			outside := filepath.Join(dir, "outside")
			write(t, filepath.Join(outside, "secret"), hostSecret+"\n", 0o644)
			runScript(t, dir, ready+"other; "+w.script,
				"SECRET="+filepath.Join(outside, "secret"), "OUTSIDE="+outside)
			oddIndex(t, filepath.Join(dir, "repo/.git/index"))
			blob := strings.TrimSpace(gitOut(t, filepath.Join(outside, "other"), "rev-parse", "HEAD:stolen"))
			runAllOperations(t, dir)
			copied, captured := filepath.Join(dir, "copy"), filepath.Join(dir, "captured")
			if exists(copied) != exists(captured) {
				t.Error("only one of staging and capturing refuses it")
			}
			readNothing(t, copied, hostSecret)
			readNothing(t, filepath.Join(dir, "sources"), hostSecret)
			all := []string{copied, filepath.Join(copied, "inner"), captured, filepath.Join(captured, "inner")}
			for _, d := range all {
				if _, err := os.Lstat(filepath.Join(d, ".git")); err != nil {
					continue
				}
				if out := gitOut(t, d, "cat-file", "-t", blob); strings.TrimSpace(out) == "blob" {
					t.Errorf("an object of another repository is in %s", d)
				}
			}
			for _, d := range all {
				if exists(filepath.Join(d, "control")) && !exists(filepath.Join(d, hostSecret)) {
					t.Error("which files are there tells what the secret holds")
				}
			}
		})
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// oddIndex turns the names with @ into ones that git would not write.
func oddIndex(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(data), "@") {
		return
	}
	text := strings.NewReplacer("@@/@@/", "../../", "@git/", ".git/", "\x00@", "\x00/").Replace(string(data[:len(data)-sha1.Size]))
	text = strings.Replace(text, "../../outside", "../outside\x00\x00\x00", 1)
	if strings.Contains(text, "../outside") { // the name is shorter now
		at := strings.Index(text, "../outside")
		flags := []byte(text[at-2 : at])
		binary.BigEndian.PutUint16(flags, binary.BigEndian.Uint16(flags)-3)
		text = text[:at-2] + string(flags) + strings.Replace(text[at:], "../outside\x00\x00\x00/secret", "../outside/secret\x00\x00\x00", 1)
	}
	sum := sha1.Sum([]byte(text))
	write(t, path, text+string(sum[:]), 0o644)
}

// readNothing looks into every file of a tree.
func readNothing(t *testing.T, tree, secret string) {
	t.Helper()
	err := filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			if os.IsNotExist(err) {
				return nil
			}
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), secret) {
			t.Errorf("%s has what only the host has", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestPipesAreNotRead puts pipes and other things that are no files where git and agentbox read.
func TestPipesAreNotRead(t *testing.T) {
	isolateGit(t)
	ready := makeFixtures(t)
	for _, name := range []string{".git", ".git/HEAD", ".git/config", ".git/index", ".git/packed-refs", ".git/commondir", ".git/info/exclude", ".git/objects/info/alternates",
		"inner/.git", "inner/.git/config", "inner/.git/index", "inner/.git/commondir", "inner/.git/logs/HEAD", "inner/.git/objects/info/alternates", "inner/.git/HEAD", ".gitignore", ".git/included", ".git/objects/pack/pack-0123456789012345678901234567890123456789.idx", ".git/objects/11/" + strings.Repeat("1", 38)} {
		for kind, make := range map[string]func(string) error{
			"pipe":   func(p string) error { return unix.Mkfifo(p, 0o600) },
			"socket": func(p string) error { return unix.Mknod(p, unix.S_IFSOCK|0o600, 0) },
			"device": func(p string) error { return os.Symlink("/dev/zero", p) },
		} {
			t.Run(name+" is a "+kind, func(t *testing.T) {
				t.Parallel()
				dir := tempDir(t)
				runScript(t, dir, ready+"nested; git -C .. config include.path included; mkdir -p ../.git/objects/11")
				path := filepath.Join(dir, "repo", filepath.FromSlash(name))
				if err := os.RemoveAll(path); err != nil {
					t.Fatal(err)
				}
				if err := make(path); err != nil {
					t.Skip(err)
				}
				runAllOperations(t, dir)
			})
		}
	}
}

// TestPipeAsIgnoreFile has pipes where git reads ignore rules, at the top and
// below.
func TestPipeAsIgnoreFile(t *testing.T) {
	isolateGit(t)
	dir := build(t, `base; mkdir -p sub/deep; echo u >sub/deep/untracked; mkfifo .gitignore sub/deep/.gitignore sub/pipe`)
	repo, err := workspace.Describe(t.Context(), filepath.Join(dir, "repo"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // it would be ten
	defer cancel()
	if _, err := workspace.Stage(ctx, repo, filepath.Join(dir, "copy"), workspace.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "copy/sub/deep/untracked")); err != nil {
		t.Error(err)
	}
}

// TestNestedRepositoryDoesNotGovernOuter goes into a bare repository that a checkout has brought
// and that takes a directory above it for its work tree, as it would be in a home under git's
// control.
func TestNestedRepositoryDoesNotGovernOuter(t *testing.T) {
	isolateGit(t)
	for name, script := range map[string]string{
		"bare":     `base; mkdir -p in/evil; git clone -q --bare . in/evil/x.git; cd in/evil/x.git; git config core.bare false; git config core.worktree ../../..`,
		"disguise": `base; mkdir -p in/evil; git clone -q --bare . in/evil; cd in/evil; git config core.bare false; git config core.worktree "$PWD/../.."`,
	} {
		dir := build(t, script)
		for _, at := range []string{"in/evil/x.git", "in/evil", "in/evil/x.git/objects", "in/evil/objects"} {
			at = filepath.Join(dir, "repo", at)
			if _, err := os.Stat(at); err != nil {
				continue
			}
			repo, err := workspace.Describe(t.Context(), at)
			if err == nil && repo.GitDir != filepath.Join(repo.Root, ".git") {
				t.Errorf("%s: %s is governed by %s", name, repo.Root, repo.GitDir)
			}
		}
	}
}

// TestHugeGitFilesAreRefused has files that pretend to be larger than any memory.
func TestHugeGitFilesAreRefused(t *testing.T) {
	isolateGit(t)
	for _, name := range []string{"HEAD", "packed-refs", "config", "commondir", "objects/info/alternates"} {
		dir := build(t, `base; git pack-refs --all; rm -rf .git/refs/heads/*`)
		path := filepath.Join(dir, "repo/.git", filepath.FromSlash(name))
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(1 << 40); err != nil {
			t.Skip(err)
		}
		f.Close()
		repo, err := workspace.Describe(t.Context(), filepath.Join(dir, "repo"))
		if err == nil {
			_, err = workspace.Stage(t.Context(), repo, filepath.Join(dir, "copy"), workspace.Options{Limit: 1 << 20})
		}
		if err == nil || agentbox.AsError(err) == nil || !strings.Contains(err.Error(), "it has more than") {
			t.Errorf("a huge %s: %v", name, err)
		}
	}
}

func write(t testing.TB, path, content string, mode fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func runScript(t testing.TB, dir, script string, env ...string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
