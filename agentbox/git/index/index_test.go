package index

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// made runs a script in a repository with three files and returns the index.
func made(t testing.TB, script string) (dir string, text []byte) {
	t.Helper()
	dir = t.TempDir()
	cmd := exec.Command("sh", "-c", `set -e; git init -q .; mkdir -p a/b; echo 1 >a.txt; echo 22 >a/b/c; ln -s a.txt link; printf x >"$(printf 'n\nl\351')"; git add .; `+script)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, ".git", "index"))
	if err != nil {
		t.Fatal(err)
	}
	return dir, text
}

func TestParseSaysWhatGitSays(t *testing.T) {
	for name, script := range map[string]string{
		"version 2": `git update-index --index-version 2`, "version 3": `echo i >i; git add -N i`, "version 4": `git update-index --index-version 4`,
		"hidden": `git update-index --assume-unchanged a.txt`, "skipped": `git update-index --skip-worktree a.txt`,
		"many":            `mkdir -p many/$(printf %0200d 1); for i in $(seq 300); do echo $i >many/$(printf %0200d 1)/f$i; done; git add .; git update-index --index-version 4`,
		"with extensions": `git -c user.name=t -c user.email=t@t commit -qm x; git write-tree >/dev/null; git status >/dev/null`,
	} {
		t.Run(name, func(t *testing.T) {
			dir, text := made(t, script)
			x, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, e := range x.Entries {
				got.WriteString(e.Path + "\x00")
			}
			cmd := exec.Command("git", "ls-files", "-z")
			cmd.Dir = dir
			if want, err := cmd.Output(); err != nil || got.String() != string(want) {
				t.Errorf("%q, want %q, %v", got.String(), want, err)
			}
			special := slices.ContainsFunc(x.Entries, func(e Entry) bool { return e.Special })
			if want := slices.Contains([]string{"version 3", "hidden", "skipped"}, name); special != want {
				t.Errorf("special: %v", special)
			}
		})
	}
}

// An index that is not all that git knows is refused.
func TestSplitIndexIsRefused(t *testing.T) {
	_, text := made(t, `git update-index --split-index`)
	if _, err := Parse(text); err == nil {
		t.Error("a part was taken for the whole")
	}
}

// Git does not read a file whose entry has its size and time.
func TestSetStatIsBelieved(t *testing.T) {
	dir, _ := made(t, `git -c user.name=t -c user.email=t@t commit -qm x; git read-tree HEAD`)
	file := filepath.Join(dir, ".git", "index")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	x, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(x.Entries, func(e Entry) bool { return e.Path == "a.txt" })
	x.SetStat(i, 2, Time{Sec: 1_000_000_000})
	if err := os.WriteFile(file, x.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `printf '2\n' >a.txt; touch -d @1000000000 a.txt; git -c core.checkStat=minimal -c core.trustctime=false diff-files --name-only; git fsck`)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "a.txt") {
		t.Errorf("%v: %s", err, out)
	}
}

func FuzzParse(f *testing.F) {
	for _, script := range []string{`true`, `git update-index --index-version 4`, `echo i >i; git add -N i`} {
		_, text := made(f, script)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		x, err := Parse(text)
		if err != nil {
			return
		}
		for i := range x.Entries {
			x.SetStat(i, uint32(i), Time{1, 2})
		}
		again, err := Parse(bytes.Clone(x.Bytes()))
		if err != nil || len(again.Entries) != len(x.Entries) {
			t.Fatalf("%d files are %v, %v", len(x.Entries), again, err)
		}
		for i, e := range again.Entries {
			if e != x.Entries[i] {
				t.Fatalf("%v is %v", x.Entries[i], e)
			}
		}
	})
}
