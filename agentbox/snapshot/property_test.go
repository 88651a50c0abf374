package snapshot

import (
	"bytes"
	"errors"
	"flag"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// steps are what a person or an agent may have done in a workspace, in any order. A step that cannot be
// done after others does nothing.
var steps = map[string]string{
	"rename":          `git mv a.txt renamed.txt`,
	"rename unstaged": `mv a.txt other.txt`,
	"delete":          `rm a.txt`,
	"delete staged":   `git rm -q -f dir/b.txt`,
	"delete in index": `git rm -q --cached a.txt`,
	"modify":          `echo more >>a.txt`,
	"same size":       `printf '%s' "$(tr a-z b-za <dir/b.txt)" >dir/b.txt`,
	"staged and not":  `echo s >>a.txt; git add a.txt; echo u >>a.txt`,
	"mode":            `chmod 755 a.txt; chmod 600 dir/b.txt`,
	"mode staged":     `git update-index --chmod=+x a.txt`,
	"unusual modes":   `echo r >readonly; chmod 444 readonly; echo x >run; chmod 700 run; mkdir -p out; echo m >out/x.o; chmod 640 out/x.o`,
	"links":           `ln -s a.txt link; ln -s ../outside up; ln -s /etc/passwd absolute; ln -s dir todir; ln -s nothing dangling; git add link up`,
	"link over file":  `rm -f a.txt; ln -s dir/b.txt a.txt`,
	"link over dir":   `rm -rf dir; ln -s a.txt dir`,
	"dir over file":   `rm -f a.txt; mkdir a.txt; echo in >a.txt/in`,
	"file over dir":   `rm -rf dir; echo file >dir`,
	"binary":          `printf '\000\001\377\n\r\n' >bin; printf '\r\n\000' >>a.txt; git add bin`,
	"empty":           `: >empty; : >empty2; git add empty`,
	"large":           `head -c 3000000 /dev/zero | tr '\0' 'x' >large`,
	"sparse":          `truncate -s 2M hole; git add hole`,
	"odd names": `for n in ' lead' 'tail ' 'new
line' '-dash' 'quo"te' "apo'" 'back\slash' 'tab	' '*glob?' '[a]' ':colon' '!bang' '#hash' 'ünï' '$(touch x)'; do echo "$n" >"$n"; done; git add -- '*glob?' ' lead'`,
	"not UTF-8":        `n=$(printf 'x\377y'); echo 1 >"$n"; mkdir "d$n"; echo 2 >"d$n/f"; git add -- "$n"`,
	"case pairs":       `echo 1 >Name; echo 2 >name; echo 3 >A.TXT; git add Name`,
	"long name":        `n=$(printf '%0240d' 0); echo l >"$n"; mkdir -p "$n.d/$n"; echo l >"$n.d/$n/$n"`,
	"submodule":        `git init -q ../sub; (cd ../sub; git config user.name t; git config user.email t; echo s >s; git add s; git commit -qm s); git submodule --quiet add ../sub sub`,
	"submodule moved":  `git init -q ../subm; (cd ../subm; git config user.name t; git config user.email t; echo s >s; git add s; git commit -qm s); git submodule --quiet add ../subm subm; git commit -qm sub; (cd subm; git config user.name t; git config user.email t; echo 2 >>s; git commit -qam 2; echo 3 >>s)`,
	"nested":           `git init -q nested; (cd nested; git config user.name t; git config user.email t; echo n >n; git add n; git commit -qm n; echo u >u)`,
	"worktree":         `git worktree add -q -f ../tree HEAD; echo w >../tree/w`,
	"worktree inside":  `git worktree add -q -f -b inside within HEAD; echo w >within/w`,
	"commit":           `echo c >c; git add c; git commit -qm c`,
	"branch":           `git checkout -q -b topic; echo t >t; git add t; git commit -qm t`,
	"detached":         `git checkout -q --detach`,
	"orphan":           `git checkout -q --orphan fresh`,
	"tags":             `git tag light; git tag -a -m annotated heavy`,
	"stash":            `echo st >>a.txt; git stash -q; echo st2 >>a.txt; git stash -q`,
	"merge":            `git checkout -q -b m1; echo 1 >a.txt; git commit -qam m1; git checkout -q -b m2 HEAD^; echo 2 >a.txt; git commit -qam m2; git merge m1`,
	"merge resolved":   `git checkout -q -b r1; echo 1 >a.txt; git commit -qam r1; git checkout -q -b r2 HEAD^; echo 2 >a.txt; git commit -qam r2; git merge r1; echo 3 >a.txt; git add a.txt`,
	"deleted by them":  `git checkout -q -b d1; git rm -q a.txt; git commit -qm d1; git checkout -q -b d2 HEAD^; echo 2 >a.txt; git commit -qam d2; git merge d1`,
	"rebase":           `git checkout -q -b b1; echo 1 >a.txt; git commit -qam b1; git checkout -q -b b2 HEAD^; echo 2 >a.txt; git commit -qam b2; git rebase b1`,
	"cherry-pick":      `git checkout -q -b c1; echo 1 >a.txt; git commit -qam c1; git checkout -q -b c2 HEAD^; echo 2 >a.txt; git commit -qam c2; git cherry-pick c1`,
	"revert":           `echo 1 >a.txt; git commit -qam v1; echo 2 >a.txt; git commit -qam v2; git revert --no-edit HEAD^`,
	"bisect":           `git bisect start HEAD HEAD^`,
	"intent to add":    `echo i >intent; git add -N intent`,
	"skip-worktree":    `echo skip >>a.txt; git update-index --skip-worktree a.txt`,
	"skipped and gone": `git update-index --skip-worktree dir/b.txt; rm -f dir/b.txt`,
	"assume unchanged": `git update-index --assume-unchanged a.txt; echo assumed >>a.txt`,
	"sparse checkout":  `git sparse-checkout set --no-cone /a.txt`,
	"ignored":          `mkdir -p out/deep; echo o >out/deep/y.o; touch -d @1500000000.123456789 out/deep/y.o; echo no >left.o`,
	"own ignore":       `mkdir -p ig; echo '*' >ig/.gitignore; echo x >ig/x`,
	"old times":        `touch -d @1234567890.987654321 a.txt; echo n >old; touch -d @1111111111.5 old`,
	"hooks":            `printf '#!/bin/sh\ntouch hooked\n' >.git/hooks/post-checkout; chmod 755 .git/hooks/post-checkout`,
}

// observe is what git and the file system say of a workspace: what a restored one has in common with it.
func observe(t rapid.TB, dir string) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", `cd "$1" || exit 1
export GIT_OPTIONAL_LOCKS=0
git status --porcelain=v2 -uall --ignore-submodules=none | sort
git symbolic-ref -q HEAD; git rev-parse -q --verify HEAD
echo index; git ls-files -s; git ls-files -v; git ls-files -z -t | tr '\0' '\n'
echo refs; git for-each-ref --format='%(objectname) %(refname)' refs/heads refs/tags refs/stash refs/bisect
echo state; for f in MERGE_HEAD MERGE_AUTOSTASH CHERRY_PICK_HEAD REVERT_HEAD BISECT_LOG rebase-merge/done; do [ ! -e .git/$f ] || { echo $f; cat .git/$f; }; done
echo files; find . -name .git -prune -o -path ./within -prune -o -path ./left.o -prune -o -path ./ig -prune -o \( -type f -printf '%P %m\n' -exec sha256sum {} + \) -o \( -type l -printf '%P %l\n' \) | sort
echo times; git status --porcelain -z -uall --no-renames | tr '\0' '\n' | sed 's/^...//' | while IFS= read -r f; do [ -L "$f" ] || [ ! -f "$f" ] || stat -c '%n %y' "$f"; done
[ ! -d out ] || find out -type f -exec stat -c '%n %y' {} + | sort`, "sh", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// A workspace that is captured, and restored elsewhere from its snapshot, is the same: index, bytes,
// modes, and the times of what was changed, whatever was done in it.
func TestSnapshotRestoresAnything(t *testing.T) {
	anySteps(t, 5, func(r *rapid.T, done []string) { restoreAfter(t, r, done) })
}

// anySteps calls f with what was done in a workspace, chosen at random: at most so many of steps.
func anySteps(t *testing.T, most int, f func(r *rapid.T, done []string)) {
	isolateGit(t)
	if testing.Short() { // the same ones for every change; make sweeps does others each time
		_ = flag.Set("rapid.checks", "15") // of which -short has it do a fifth
		_ = flag.Set("rapid.seed", "15")
	}
	names, checks := slices.Sorted(maps.Keys(steps)), 0
	defer func() {
		if checks == 0 {
			t.Error("nothing was checked")
		}
	}()
	rapid.Check(t, func(r *rapid.T) {
		checks++
		f(r, rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, most, rapid.ID).Draw(r, "steps"))
	})
}

// scriptOf does steps in a new workspace, whatever becomes of each.
func scriptOf(done []string) string {
	script := "base\n"
	for _, name := range done {
		script += "(" + steps[name] + ") >/dev/null 2>&1 || true\n"
	}
	return script
}

func restoreAfter(t *testing.T, r rapid.TB, done []string) {
	restores(t, r, newWorld(t, scriptOf(done)), done)
}

// restores takes a snapshot of a workspace and restores it here and on another machine.
func restores(t *testing.T, r rapid.TB, w world, done []string) {
	d, _ := documentOf(t, w)
	dir := filepath.Join(w.dir, "restored")
	if err := Checkout(t.Context(), d.Kept(w.mirror), d.Branch, dir, ""); err != nil {
		r.Fatal(err)
	}
	// A second one shares files with the first, which stays as it is.
	shared := filepath.Join(w.dir, "shared")
	if err := Checkout(t.Context(), d.Kept(w.mirror), d.Branch, shared, dir); err != nil {
		r.Fatal(err)
	}
	// A third one is made on another machine, of what that was sent.
	sent, there := filepath.Join(w.dir, "sent"), filepath.Join(w.dir, "there", "p.git")
	travel(t, r, w, d, there)
	if err := Checkout(t.Context(), d.Kept(there), d.Branch, sent, ""); err != nil {
		r.Fatal(err)
	}
	want := observe(r, w.box)
	for _, made := range []string{dir, shared, sent} {
		if got := observe(r, made); got != want {
			r.Fatalf("%s after %q:\n%s", filepath.Base(made), done, difference(got, want))
		}
	}
}

// travel sends a snapshot to another mirror as machines do, after parts of it that got lost: those are
// refused, and leave nothing.
func travel(t *testing.T, r rapid.TB, w world, d Document, there string) {
	history, work := bytes.Buffer{}, bytes.Buffer{}
	lacks, _, err := d.Lacks(t.Context(), there)
	if err == nil && lacks {
		err = d.WriteHistory(t.Context(), w.mirror, &history)
	}
	if err = errors.Join(err, d.WriteWork(t.Context(), w.mirror, &work)); err != nil {
		r.Fatal(err)
	}
	receive := func(h, w []byte) error {
		if lacks {
			return d.Receive(t.Context(), there, bytes.NewReader(h), bytes.NewReader(w))
		}
		return d.Receive(t.Context(), there, nil, bytes.NewReader(w))
	}
	cut := work.Bytes()[:work.Len()*2/3]
	if err := receive(history.Bytes(), cut); err == nil {
		r.Fatal("two thirds of the work were taken")
	}
	m := mirror{mirrorFor(there, len(d.Whole))}
	refs, err := m.git(t.Context(), nil, "for-each-ref", "--format=%(refname)")
	left, globErr := filepath.Glob(filepath.Join(m.dir, "incoming-*"))
	if err = errors.Join(err, globErr); err != nil || strings.Contains(refs, "snapshots/") || len(left) > 0 {
		r.Fatalf("it is left: %s%q, %v", refs, left, err)
	}
	if err := receive(history.Bytes(), work.Bytes()); err != nil {
		r.Fatal(err)
	}
	gitOut(t, m.dir, "fsck", "--connectivity-only", "--no-dangling")
}

// difference lists the lines that one of two texts has.
func difference(got, want string) string {
	var out strings.Builder
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for _, line := range g {
		if !slices.Contains(w, line) {
			out.WriteString("+" + line + "\n")
		}
	}
	for _, line := range w {
		if !slices.Contains(g, line) {
			out.WriteString("-" + line + "\n")
		}
	}
	return out.String()
}
