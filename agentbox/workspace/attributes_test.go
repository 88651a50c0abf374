package workspace

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentbox/agentbox/git"
)

func FuzzDrivers(f *testing.F) {
	f.Add("*.up filter=up -text\n# x filter=no\n\"a b\" diff=x merge=y\r\n*.c !diff filter\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, d := range drivers(text) {
			if strings.ContainsAny(d, " \t\n") || !strings.Contains(d, "=") {
				t.Errorf("%q", d)
			}
		}
	})
}

// What git itself knows and LFS need no word.
func TestNoteAttributes(t *testing.T) {
	for text, want := range map[string]int{
		"*.bin filter=lfs diff=lfs merge=lfs -text\n": 0, "*.go diff=golang\n": 0, "x merge=union\n": 0, "x filter=own\n": 1,
		"x filter=crypt diff=crypt\ny filter=crypt\n": 2, "# x filter=crypt\n": 0, "x merge=ours\n": 1, "x -filter !diff merge\n": 0,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, ".gitattributes"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := &stager{}
		s.noteAttributes(Repo{Root: dir}, []git.Setting{{Key: "filter.own.clean", Value: "cat"}}, []string{"a", ".gitattributes", "gone/.gitattributes"})
		if len(s.stats.Notes) != want || slices.ContainsFunc(s.stats.Notes, func(n string) bool { return !strings.Contains(n, "of .gitattributes") }) {
			t.Errorf("%q: %q", text, s.stats.Notes)
		}
	}
}
