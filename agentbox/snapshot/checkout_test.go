package snapshot

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A checkout of kept work is what was in the box: its commits, and in its files what was not
// committed. Nothing that the box wrote runs on the way.
func TestCheckoutIsWhatTheBoxHad(t *testing.T) {
	isolateGit(t)
	for name, script := range map[string]string{
		"uncommitted":   `base; echo more >>a.txt; mkdir -p new/deep; echo n >"new/deep/$(printf 'o d\351d\n')"; rm -r dir; chmod +x a.txt; ln -s /etc/passwd link; ln -s new dirlink`,
		"committed":     `base; echo c >c; git add .; git commit -qm third`,
		"both":          `base; echo c >c; git add .; git commit -qm third; echo d >>c; echo e >e`,
		"nothing":       `base; git commit -q --allow-empty -m third`,
		"hostile":       `base; echo '* filter=x' >.gitattributes; git config filter.x.smudge 'touch /tmp/agentbox-canary'; mkdir -p dir/sub; ln -s /tmp dir/sub/out; echo x >x; git add -A; git commit -qm x`,
		"shallow":       `base; for i in 1 2 3; do echo $i >a.txt; git commit -qam $i; done; cd ..; rm -rf repo; git clone -q --depth 1 "file://$PWD/box" repo; rm -rf box; cp -a repo box; git -C box rev-parse HEAD >base; cd box; ident; echo s >s; git add s; git commit -qm s`,
		"first commits": `git init -q repo; cd repo; ident; cd ..; cp -a repo box; : >base; cd box; echo a >a; git add a; git commit -qm a; echo b >b`,
		"no commits":    `git init -q repo; cd repo; ident; cd ..; cp -a repo box; : >base; cd box; echo a >a`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, script)
			kept, err := Keep(t.Context(), localGuest{}, w.request())
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(w.dir, "made")
			if err := Checkout(t.Context(), kept, "agentbox/t-1", dir, ""); err != nil {
				t.Fatal(err)
			}
			same := exec.Command("sh", "-c", `diff -r --no-dereference -x .git box made && test "$(cd box; git log --format=%H)" = "$(cd made; git log --format=%H)" &&
				test "$(cd box; git status --porcelain -uall)" = "$(cd made; git status --porcelain -uall)"`)
			same.Dir = w.dir
			if out, err := same.CombinedOutput(); err != nil {
				t.Errorf("it differs: %s", out)
			}
			if b := gitOut(t, dir, "symbolic-ref", "HEAD"); b != "refs/heads/agentbox/t-1" {
				t.Errorf("on %s", b)
			}
			gitOut(t, dir, "fsck", "--strict", "--connectivity-only")
			if exists("/tmp/agentbox-canary") {
				t.Error("a filter ran")
			}
		})
	}
}

// What would be written outside of the checkout is an error.
func TestCheckoutStaysInside(t *testing.T) {
	isolateGit(t)
	w := newWorld(t, `base; git update-index --add --cacheinfo 120000,$(printf /tmp | git hash-object -w --stdin),out; git commit -qm link`)
	kept, err := Keep(t.Context(), localGuest{}, w.request())
	if err != nil {
		t.Fatal(err)
	}
	// A tree that no git would write: a link, and a file below it.
	m := mirror{kept.Mirror}
	blob, err := m.git(t.Context(), strings.NewReader("x"), "hash-object", "-w", "--stdin")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".git", "..", "out"} {
		inner, err := m.git(t.Context(), strings.NewReader("100644 blob "+strings.TrimSpace(blob)+"\tagentbox-escaped\n"), "mktree")
		if err != nil {
			t.Fatal(err)
		}
		text := "040000 tree " + strings.TrimSpace(inner) + "\t" + name + "\n"
		if name == "out" {
			target, err := m.git(t.Context(), strings.NewReader("/tmp"), "hash-object", "-w", "--stdin")
			if err != nil {
				t.Fatal(err)
			}
			text = "120000 blob " + strings.TrimSpace(target) + "\tout\n" + text
		}
		tree, err := m.git(t.Context(), strings.NewReader(text), "mktree")
		if err != nil {
			continue // this git does not even make it
		}
		commit, err := m.git(t.Context(), strings.NewReader(""), "-c", "user.name=x", "-c", "user.email=x", "commit-tree", strings.TrimSpace(tree))
		if err != nil {
			t.Fatal(err)
		}
		kept.Commit, kept.Files, kept.Ref = strings.TrimSpace(commit), 0, "refs/none"
		kept.Whole = kept.Commit
		if err := Checkout(t.Context(), kept, "b", filepath.Join(w.dir, "made"+name), ""); err == nil {
			t.Errorf("%s: %v", name, err)
		}
		if exists("/tmp/agentbox-escaped") {
			t.Errorf("%s: it wrote through a link", name)
		}
	}
}
