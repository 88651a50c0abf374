package snapshot

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What was staged, in which state an operation was, modes, times, artifacts and nested repositories
// are in no commit of the workspace, and are restored all the same.
func TestCheckoutRestoresExactly(t *testing.T) {
	isolateGit(t)
	for name, script := range map[string]string{
		"staged and unstaged":   `base; echo staged >>a.txt; git add a.txt; echo unstaged >>a.txt; git rm -q --cached dir/b.txt; echo n >new; git add new; rm new`,
		"modes and times":       `base; chmod 600 a.txt; echo s >>dir/b.txt; chmod 755 dir/b.txt; touch -d '2020-02-02 02:02:02.123456789' dir/b.txt; printf x >'o d:d'; chmod 640 'o d:d'`,
		"ignored artifacts":     `base; echo out >.gitignore; mkdir -p out/deep; echo r >out/deep/r; echo no >out/no; chmod 700 out/deep/r; ln -s /etc/passwd out/deep/link`,
		"merge in progress":     `base; git switch -qc other HEAD^; echo o >>a.txt; git commit -qam o; git switch -q main; git merge other >/dev/null || true; test -f .git/MERGE_HEAD`,
		"rebase in progress":    `base; git switch -qc other HEAD^; echo o >>a.txt; git commit -qam o; git rebase main >/dev/null 2>&1 || true; test -d .git/rebase-merge`,
		"cherry-pick":           `base; git switch -qc other HEAD^; echo o >>a.txt; git commit -qam o; git switch -q main; git cherry-pick other >/dev/null 2>&1 || true; test -f .git/CHERRY_PICK_HEAD`,
		"hidden files":          `base; git update-index --assume-unchanged a.txt; git update-index --skip-worktree dir/b.txt`,
		"artifacts of a sparse": `base; echo out >.gitignore; git add .gitignore; git commit -qm i; git sparse-checkout set --no-cone /a.txt; mkdir -p out/deep; echo r >out/deep/r`,
		"file for sparse dir":   `base; git commit -q --allow-empty -m i; git status >/dev/null; git sparse-checkout set --no-cone /a.txt; rm -rf dir; echo file >dir`,
		"link for sparse dir":   `base; git commit -q --allow-empty -m i; git status >/dev/null; git sparse-checkout set --no-cone /a.txt; rm -rf dir; ln -s nothing dir`,
		"there, though sparse":  `base; git sparse-checkout set --no-cone /a.txt; git update-index --skip-worktree a.txt`,
		"branches, tags":        `base; git branch side HEAD^; git tag v1; git switch -qc more; git commit -q --allow-empty -m more; git switch -q main; echo s >>a.txt; git stash -q`,
		"annotated tags":        `base; git tag -a -m release v1 HEAD^; git switch -q --detach; git commit -q --allow-empty -m aside; git tag -a -m own v2; git tag -a -m nested v3 v2; git tag tree HEAD^{tree}; git switch -q main`,
		"notes, replacements":   `base; git notes add -m note HEAD^; git notes --ref=own add -m own HEAD; git replace --graft HEAD`,
		"bisect in progress":    `base; for i in 1 2 3 4; do git commit -q --allow-empty -m $i; done; git bisect start --first-parent --term-new=worse --term-old=better HEAD HEAD~4 >/dev/null; git bisect skip >/dev/null`,
		"autostash of a merge":  `base; git switch -qc other HEAD^; echo o >>a.txt; git commit -qam o; git switch -q main; echo b >>dir/b.txt; git merge --autostash other >/dev/null 2>&1 || true; test -f .git/MERGE_AUTOSTASH`,
		"autostash of a rebase": `base; git switch -qc other HEAD^; echo o >>a.txt; git commit -qam o; echo b >>dir/b.txt; git rebase --autostash main >/dev/null 2>&1 || true; test -f .git/rebase-merge/autostash`,
		"five stashes":          `base; for i in 1 2 3 4 5; do echo $i >>a.txt; git stash -q -m "number $i"; done`,
		"stashes of a nested":   `base; git init -q sub; cd sub; ident; echo n >n; git add n; git commit -qm n; for i in 1 2 3 4 5; do echo $i >>n; git stash -q -m "number $i"; done; cd ..`,
		"nested, own commits":   `base; git init -q sub; cd sub; ident; echo n >n; git add n; git commit -qm n; echo m >m; cd ..`,
		"nothing at all":        `base`,
		"no commits":            `git init -q repo; cd repo; ident; cd ..; cp -a repo box; : >base; cd box; echo a >a; git add a; echo b >>a`,
		"names of many shapes":  `base; mkdir 'a b'; echo x >"a b/$(printf 'n\nl\351')"; echo y >':(top)z'; git add -A; echo z >>"a b/$(printf 'n\nl\351')"`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, script)
			req := w.request()
			req.Rest, req.All, req.Artifacts = true, true, []string{"out/deep/**"}
			kept, err := Keep(t.Context(), localGuest{}, req)
			if err != nil {
				t.Fatal(err)
			}
			if name == "ignored artifacts" || name == "annotated tags" {
				again, err := Keep(t.Context(), localGuest{}, req)
				if err != nil || again.Rest != kept.Rest {
					t.Errorf("the rest of the same workspace is another: %v", err)
				}
			}
			if err := Checkout(t.Context(), kept, kept.Branch, filepath.Join(w.dir, "made"), ""); err != nil {
				t.Fatal(err)
			}
			same := exec.Command("bash", "-c", `rm -f box/out/no
				said() { (cd $1; git status --porcelain=v2 --branch -uall; git ls-files -sv; git for-each-ref; git rev-parse --abbrev-ref @{-1} 2>/dev/null | grep "^[a-z]"; git stash list --format='%gd %gs %H'
					find . -path ./.git -prune -o -path ./sub -prune -o -type f -printf '%m %p\n' | sort; git diff HEAD --name-only -z 2>/dev/null | xargs -0r stat -c '%y %n' -- 2>/dev/null
					ls .git | grep -x 'MERGE_HEAD\|MERGE_MSG\|MERGE_AUTOSTASH\|BISECT_.*\|rebase-merge\|CHERRY_PICK_HEAD'; [ ! -d sub ] || git -C sub status --porcelain=v2; [ ! -d sub ] || git -C sub stash list --format='%gd %gs %H'; [ ! -d sub ] || git -C sub log --format=%H); }
				diff -r --no-dereference -x .git box made && diff <(said box) <(said made)`)
			same.Dir = w.dir
			if out, err := same.CombinedOutput(); err != nil {
				t.Errorf("it differs: %s", out)
			}
			gitOut(t, filepath.Join(w.dir, "made"), "fsck", "--strict", "--connectivity-only")
		})
	}
}

// What a box writes into the rest is read, and nothing else of it: names that lead elsewhere, and
// files of a git directory that git would run, are refused.
func TestRestThatLeadsElsewhere(t *testing.T) {
	id := strings.Repeat("a", 40)
	for name, text := range map[string]string{
		"staged":   ":000000 100644 " + strings.Repeat("0", 40) + " " + id + " A\x00../x\x00",
		"unmerged": "100644 " + id + " 1\t.git/hooks/x\x00",
		"flags":    "S ../x\x00",
		"modes":    "7777 ./x\x00",
		"times":    "/etc/passwd\x00  ctime: 1:1\n  mtime: 1:1\n",
	} {
		if _, err := parseRest(map[string]string{name: text}); err == nil {
			t.Errorf("%s: %q was taken", name, text)
		}
	}
	for _, name := range []string{"hooks/post-checkout", "config", "rebase-merge/../config", "rebase-merge/a/b", "MERGE_HEAD/x", "objects/info/alternates"} {
		if stateFiles().MatchString(name) && !strings.Contains(name, "..") {
			t.Errorf("%s would be written", name)
		}
	}
}

func FuzzRest(f *testing.F) {
	id := strings.Repeat("a", 40)
	f.Add(":100644 100644 "+id+" "+id+" M\x00a\x00", "100644 "+id+" 1\tb\x00", "h a\x00", "600 ./a\x00", "a\x00  ctime: 1:2\n  mtime: 3:4\n  dev: 1\tino: 2\n")
	f.Fuzz(func(t *testing.T, staged, unmerged, flags, modes, times string) {
		r, err := parseRest(map[string]string{"staged": staged, "unmerged": unmerged, "flags": flags, "modes": modes, "times": times})
		if err != nil {
			return
		}
		for _, line := range r.index {
			if _, name, _ := strings.Cut(line, "\t"); strings.Contains("/"+name+"/", "/../") || strings.Contains("/"+name+"/", "/.git/") || strings.Contains(line, "\x00") {
				t.Errorf("%q", line)
			}
		}
	})
}

// Git would run the commands of an interrupted rebase with the user's rights: a checkout outside of a
// box has the work, and none of that.
func TestPlainCheckout(t *testing.T) {
	isolateGit(t)
	w := newWorld(t, `base; git -c sequence.editor=true rebase -q -i --root -x false >/dev/null 2>&1 || true; grep -q exec .git/rebase-merge/done; echo n >n; git add n`)
	d, _ := documentOf(t, w)
	exact, plain := filepath.Join(w.dir, "exact"), filepath.Join(w.dir, "plain")
	for dir, kept := range map[string]Kept{exact: d.Kept(w.mirror), plain: d.Kept(w.mirror).Plain()} {
		if err := Checkout(t.Context(), kept, d.Branch, dir, ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(exact, ".git", "rebase-merge")); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"rebase-merge", "rebase-apply", "sequencer", "hooks"} {
		if _, err := os.Lstat(filepath.Join(plain, ".git", name)); err == nil {
			t.Errorf("there is a %s", name)
		}
	}
	if got := gitOut(t, plain, "status", "--porcelain"); got != "?? n" {
		t.Errorf("%q", got)
	}
}
