package workspace_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/workspace"
)

// serve takes the place of agentbox: it does for a directory what git-serve does for the workspace
// of a box.
func serve(t *testing.T, dir, copyOf string) string {
	t.Helper()
	path := filepath.Join(dir, "a b's agentbox")
	script := fmt.Sprintf("#!/bin/sh\necho \"$AGENTBOX_HOME|$#|$1|$2|$3|$4\" >>%s/log\nexec \"$3\" %s\n", dir, copyOf)
	if err := durable.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWorkGoesBothWays(t *testing.T) {
	isolateGit(t)
	dir := build(t, `base`)
	src, box := filepath.Join(dir, "repo"), filepath.Join(dir, "box")
	repo := describe(t, src)
	stage(t, src, box, workspace.Options{})
	r := workspace.Remote{Name: "repo-main", Box: "0123456789ab", Binary: serve(t, dir, box), Home: "/some home"}
	if err := workspace.AddRemote(context.Background(), repo, r); err != nil {
		t.Fatal(err)
	}
	script := `set -e
		cd box; git config user.name b; git config user.email b@b; echo work >w; git add w; git commit -qm work; cd ..
		cd repo; git fetch -q repo-main; test "$(git log -1 --format=%s repo-main/main)" = work
		git pull -q repo-main main; test -e w
		echo back >back; git add back; git commit -qm back; git push -q repo-main main
		test -e ../box/back; test -z "$(git -C ../box status --porcelain)"
		git push -q repo-main HEAD:refs/heads/topic; git ls-remote repo-main refs/heads/topic | grep -q topic
		lines=$(wc -l <../log); git fetch -q --all; git remote update >/dev/null; test "$lines" = "$(wc -l <../log)"
		cd ..; git clone -q -o repo-main -u "$(git -C repo config remote.repo-main.uploadpack)" "$(git -C repo config remote.repo-main.url)" cloned; test -e cloned/back`
	if out := sh(t, dir, script); out != "" {
		t.Fatal(out)
	}
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	if first, _, _ := strings.Cut(string(log), "\n"); first != "/some home|4|git-serve|0123456789ab|git-upload-pack|/agentbox/repo-main" {
		t.Errorf("git ran: %s", first)
	}
	if conf := gitOut(t, src, "config", "--list"); strings.Contains(conf, "protocol.ext") {
		t.Error("a protocol git forbids was allowed")
	}
}

// sh runs a script and returns what it printed when it failed.
func sh(t *testing.T, dir, script string) string {
	t.Helper()
	path := filepath.Join(dir, "script")
	if err := os.WriteFile(path, []byte("exec 2>&1\n"+script), 0o644); err != nil {
		t.Fatal(err)
	}
	out := gitOut(t, dir, "-c", "alias.x=!sh script", "x")
	if !strings.Contains(out, "exit status") && !strings.Contains(out, "fatal") {
		return ""
	}
	return out
}

func TestRemoteLeavesNoTrace(t *testing.T) {
	isolateGit(t)
	for _, script := range []string{"base", "base; git worktree add -q ../wt; rm -rf ../repo.tmp", `base; printf '[user]\n\tname = x' >>.git/config`,
		`base; chmod 600 .git/config`} {
		dir := build(t, script)
		src := filepath.Join(dir, "repo")
		repo := describe(t, src)
		path := filepath.Join(src, ".git/config")
		before, _ := os.ReadFile(path)
		mode, _ := os.Stat(path)
		ctx := context.Background()
		one := workspace.Remote{Name: "one", Box: "0123456789ab", Binary: "/usr/bin/agentbox"}
		two := workspace.Remote{Name: "two.2", Box: "ba9876543210", Binary: "/usr/bin/agentbox"}
		for _, r := range []workspace.Remote{one, two, one, two} {
			if err := workspace.AddRemote(ctx, repo, r); err != nil {
				t.Fatal(err)
			}
		}
		if got := gitOut(t, src, "remote"); got != "one\ntwo.2\n" {
			t.Errorf("remotes %q", got)
		}
		for _, r := range []struct{ name, box string }{{"one", "another box"}, {"two", ""}, {"one", "0123456789ab"}, {"two.2", ""}, {"one", ""}} {
			if err := workspace.RemoveRemote(ctx, repo, r.name, r.box); err != nil {
				t.Fatal(err)
			}
		}
		after, _ := os.ReadFile(path)
		modeAfter, _ := os.Stat(path)
		if !bytes.Equal(before, after) || mode.Mode() != modeAfter.Mode() {
			t.Errorf("%s: before %q %v\nafter %q %v", script, before, mode.Mode(), after, modeAfter.Mode())
		}
	}
}

func TestUserRemoteIsKept(t *testing.T) {
	isolateGit(t)
	dir := build(t, `base; git remote add box https://example.com/x.git; git config remote.half.proxy none`)
	src := filepath.Join(dir, "repo")
	repo := describe(t, src)
	before, _ := os.ReadFile(filepath.Join(src, ".git/config"))
	for _, name := range []string{"box", "half"} {
		err := workspace.AddRemote(context.Background(), repo, workspace.Remote{Name: name, Box: "1", Binary: "/b"})
		if e := agentbox.AsError(err); e == nil || e.Code != agentbox.Exists || e.Hint == "" {
			t.Errorf("%s: %v", name, err)
		}
		if err := workspace.RemoveRemote(context.Background(), repo, name, ""); err != nil {
			t.Error(err)
		}
	}
	if after, _ := os.ReadFile(filepath.Join(src, ".git/config")); !bytes.Equal(before, after) {
		t.Errorf("the user's configuration changed: %s", after)
	}
	for _, name := range []string{"", "-x", "a..b", "a b", "a.lock", "a\nb", `a"b`} {
		if err := workspace.AddRemote(context.Background(), repo, workspace.Remote{Name: name, Box: "1", Binary: "/b"}); agentbox.CodeOf(err) != agentbox.Invalid {
			t.Errorf("name %q: %v", name, err)
		}
	}
}

func TestStaleRemoteIsReplaced(t *testing.T) {
	isolateGit(t)
	src := filepath.Join(build(t, `base`), "repo")
	repo := describe(t, src)
	for _, box := range []string{"111111111111", "222222222222"} {
		if err := workspace.AddRemote(context.Background(), repo, workspace.Remote{Name: "box", Box: box, Binary: "/b"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := gitOut(t, src, "config", "--get-all", "remote.box.agentbox"); got != "222222222222\n" {
		t.Errorf("boxes %q", got)
	}
}

func TestRemoteWaitsForGit(t *testing.T) {
	isolateGit(t)
	src := filepath.Join(build(t, `base; touch .git/config.lock`), "repo")
	err := workspace.AddRemote(context.Background(), describe(t, src), workspace.Remote{Name: "box", Box: "1", Binary: "/b"})
	if agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(src, ".git/config.lock")); err != nil {
		t.Error("somebody else's lock was removed")
	}
}
