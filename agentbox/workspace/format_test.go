package workspace_test

import (
	"crypto/sha1"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/workspace"
)

// newerRepo makes a repository whose format the installed git may be too old for: what makes it
// newer is added after git was asked.
func newerRepo(t *testing.T, script string) (repo workspace.Repo, dir string) {
	t.Helper()
	isolateGit(t)
	dir = build(t, "base")
	repo, err := workspace.Describe(t.Context(), filepath.Join(dir, "repo"))
	if err != nil {
		t.Fatal(err)
	}
	runScript(t, repo.Root, "set -e\next() { printf '[core]\\n\\trepositoryformatversion = 1\\n[extensions]\\n\\t%s\\n' \"$1\" >>.git/config; }\n"+script)
	return repo, dir
}

// A copy has the extensions that git 2.39 knows, and no others.
func TestExtensionsOfNewerGits(t *testing.T) {
	for extension, want := range map[string]string{
		"relativeWorktrees = true":   "",
		"preciousObjects = true":     "",
		"submodulePathConfig = true": "",
		"compatObjectFormat = sha1":  "",
		"noop = 1":                   "",
		"noop-v1 = 1":                "",
		"refStorage = files":         "",
		"worktreeConfig = true":      "extensions.worktreeconfig\ntrue\x00",
		"objectFormat = sha1":        "extensions.objectformat\nsha1\x00",
	} {
		t.Run(extension, func(t *testing.T) {
			repo, dir := newerRepo(t, "ext '"+extension+"'")
			dst := filepath.Join(dir, "copy")
			if _, err := workspace.Stage(t.Context(), repo, dst, workspace.Options{}); err != nil {
				t.Fatal(err)
			}
			if got := gitOut(t, dst, "config", "--null", "--get-regexp", "^extensions"); strings.TrimSuffix(got, "exit status 1") != want {
				t.Errorf("the copy has %q", got)
			}
			if out := gitOut(t, dst, "fsck"); strings.Contains(out, "fatal") || strings.Contains(out, "error") {
				t.Error(out)
			}
		})
	}
}

// What a copy cannot do without is refused while the user can still do something about it.
func TestFormatThatBoxesCannotRead(t *testing.T) {
	for extension, says := range map[string]string{
		"future = yes":              "extensions.future = yes",
		"refStorage = reftable://x": "extensions.refstorage = reftable://x",
		"objectFormat = sha512":     "extensions.objectformat = sha512",
	} {
		repo, dir := newerRepo(t, "ext '"+extension+"'")
		_, err := workspace.Stage(t.Context(), repo, filepath.Join(dir, "copy"), workspace.Options{})
		if agentbox.CodeOf(err) != agentbox.Invalid || !strings.Contains(err.Error(), says) || !strings.Contains(agentbox.AsError(err).Hint, "git clone "+repo.Root) {
			t.Errorf("%s: %v", extension, err)
		}
	}
	// git ignores it there.
	repo, dir := newerRepo(t, "printf '[extensions]\\n\\tfuture = yes\\n' >>.git/config")
	if _, err := workspace.Stage(t.Context(), repo, filepath.Join(dir, "copy"), workspace.Options{}); err != nil {
		t.Error(err)
	}
}

// reftables puts the refs of a repository into the reftables of git's testdata, whose objects the
// repository then lacks.
const reftables = `ext 'refStorage = reftable'; rm -r .git/refs .git/logs; mkdir .git/refs; echo 'this repository uses the reftable format' >.git/refs/heads
	echo 'ref: refs/heads/.invalid' >.git/HEAD; cp -r "$TABLES" .git/reftable; `

func TestReftablesBecomeFiles(t *testing.T) {
	tables, err := filepath.Abs("../git/testdata/reftable/small")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TABLES", tables)
	repo, dir := newerRepo(t, reftables)
	dst := filepath.Join(dir, "copy")
	if _, err := workspace.Stage(t.Context(), repo, dst, workspace.Options{}); err != nil {
		t.Fatal(err)
	}
	const main = "33d1497a58f805017ce1e21eef526b4ee386891e"
	want := "# pack-refs with: sorted \n" + main + " refs/heads/main\nf8f10c13d88a7473c112774b0efbf7c951c7e7a0 refs/stash\n" + main + " refs/tags/light\nbdac9f389d63e634d6beb122e1ad9ccd59889be4 refs/tags/v1\n"
	if got, err := os.ReadFile(filepath.Join(dst, ".git/packed-refs")); err != nil || string(got) != want {
		t.Errorf("%v: refs %q, want %q", err, got, want)
	}
	for ref, target := range map[string]string{"HEAD": "refs/heads/main", "refs/remotes/origin/HEAD": "refs/heads/main"} {
		if got := gitOut(t, dst, "symbolic-ref", ref); got != target+"\n" {
			t.Errorf("%s is %s", ref, got)
		}
	}
	for name, lines := range map[string]int{"HEAD": 5, "refs/heads/main": 3, "refs/stash": 2} {
		data, err := os.ReadFile(filepath.Join(dst, ".git/logs", name))
		if err != nil || strings.Count(string(data), "\n") != lines {
			t.Errorf("the reflog of %s: %v\n%s", name, err, data)
		}
	}
	if got := gitOut(t, dst, "rev-parse", "ORIG_HEAD"); got != "f4a26c7e01e1f83b840b24ac5c6764cf19e16be4\n" {
		t.Errorf("ORIG_HEAD is %s", got)
	}
}

// An index without its hash is damaged to git before 2.40.
func TestIndexWithoutHash(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		isolateGit(t)
		dir := build(t, `git init -q --object-format=`+format+` repo; cd repo; ident; echo a >a; git add a; git commit -qm a`)
		index := filepath.Join(dir, "repo/.git/index")
		whole, err := os.ReadFile(index)
		if err != nil {
			t.Fatal(err)
		}
		size := sha1.Size
		if format == "sha256" {
			size = 32
		}
		write(t, index, string(whole[:len(whole)-size])+strings.Repeat("\x00", size), 0o644)
		dst := filepath.Join(dir, "copy")
		stage(t, filepath.Join(dir, "repo"), dst, workspace.Options{Link: true})
		if got, err := os.ReadFile(filepath.Join(dst, ".git/index")); err != nil || string(got) != string(whole) {
			t.Errorf("%s: the index of the copy is not what git would have written: %v", format, err)
		}
		if left, err := os.ReadFile(index); err != nil || strings.Trim(string(left[len(left)-size:]), "\x00") != "" {
			t.Errorf("%s: the original was changed: %v", format, err)
		}
	}
}

// Settings that name programs stay on the host, and that is said once; a filter belongs to the
// content.
func TestProgramsStayOnTheHost(t *testing.T) {
	isolateGit(t)
	dir := build(t, `base; git config diff.external no-such; git config diff.x.textconv no-such; git config core.editor no-such; git config core.pager no-such
		git config sequence.editor no-such; git config merge.x.driver no-such; git config alias.x '!no-such'; git config alias.st 'status -s'; git config hook.x.command no-such; git config hook.x.event pre-commit
		git config diff.x.xfuncname y; git config filter.x.clean cat; git config core.hooksPath .husky; git config core.sshCommand no-such`)
	dst := filepath.Join(dir, "copy")
	stats := stage(t, filepath.Join(dir, "repo"), dst, workspace.Options{})
	config, err := os.ReadFile(filepath.Join(dst, ".git/config"))
	if err != nil || strings.Contains(string(config), "no-such") || strings.Contains(string(config), "husky") {
		t.Errorf("%v\n%s", err, config)
	}
	for _, kept := range []string{"xfuncname", "clean", "st = "} {
		if !strings.Contains(string(config), kept) {
			t.Errorf("the copy lacks %s:\n%s", kept, config)
		}
	}
	want := "git hooks stay on the host: those in .husky (core.hooksPath)\n" +
		"git settings that name programs stay on the host: core.editor, core.pager, diff.external, diff.x.textconv, sequence.editor, merge.x.driver, alias.x, hook.x.command, hook.x.event"
	if got := strings.Join(stats.Notes, "\n"); got != want {
		t.Errorf("notes:\n%s\nwant:\n%s", got, want)
	}
	if out := gitOut(t, dst, "-c", "user.name=x", "-c", "user.email=y", "commit", "--allow-empty", "-m", "z"); !strings.Contains(out, "z") || strings.Contains(out, "no-such") {
		t.Error(out)
	}
}

// The user learns which git it was, and all that it said: the name of an extension is on a line of
// its own.
func TestUnreadableRepositorySaysWhichGit(t *testing.T) {
	isolateGit(t)
	dir := build(t, `base; printf '[core]\n\trepositoryformatversion = 1\n[extensions]\n\tfuture = yes\n' >>.git/config`)
	_, err := workspace.Describe(t.Context(), filepath.Join(dir, "repo"))
	if err == nil || !strings.Contains(err.Error(), "/git cannot read the repository at ") || !strings.Contains(err.Error(), "future") || !strings.Contains(agentbox.AsError(err).Hint, "agentbox daemon stop") {
		t.Errorf("%v", err)
	}
}
