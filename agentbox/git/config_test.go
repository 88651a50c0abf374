package git

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Of those configurations that git accepts, git's own reading is the right one.
var configurations = []string{
	"[remote \"origin\"]\n\turl = https://example.com/a\n",
	"[remote \"origin\"] url=a\n",
	"[REMOTE \"origin\"]\nURL = \"a b\" ; said\n",
	"[remote \"Origin\"]\nurl = b\n[remote \"origin\"]\nurl = a # c\n",
	"[remote.origin]\nurl = old\n",
	"[remote.Origin]\nurl = old\n",
	"[remote \"origin\"]\nurl = one\nurl = two\n",
	"[remote \"ori\\gin\"]\nurl = escaped\n",
	"[remote \"origin\"]\nfetch\nurl = after a key without a value\n",
	"[remote \"origin\"]\nurl = a\\\n  b\n",
	"[remote \"origin\"]\nurl = \"a\\\nb\"\n",
	"[remote \"origin\"]\nurl = a\\tb\\\\\\\"c\n",
	"[remote \"origin\"]\r\nurl = a\r\n[x]\r\ny = 1\r\n",
	"[remote \"origin\"]\nurl = \"a # b\" c ; d\n",
	"[remote \"origin\"]\nurl = a   b  \n",
	"; [remote \"origin\"]\n# url = x\n[a]\nb = \"[remote \\\"origin\\\"]\"\n",
	"[a]\nb = x \\\n[remote \"origin\"]\nurl = in a value\n",
	"[a \"]\"]\nb=1\n[remote \"origin\"]\nurl = after a bracket\n",
	"[remote \"origin\"]\n\n\n   url   =   a\n",
	"[remote \"origin\"]url = a\n[x]",
	"\ufeff[remote \"origin\"]\nurl = a\n",
	"[remote \"origin\"]\nurl =\n",
	"[remote   \"origin\"]\nurl = spaces\n",
	"[core]\n\tbare\n\tFileMode  \r\n[a.b \"c.D\"]x",
	"[core]\n\tbare ; said\n",
	"[1a]\n\t1b = c\n",
	"A", "A=\\", "A=\rb\r", "[ \"\"]A0",
}

// gitReads is what git itself reads in a configuration; not ok for one that it refuses.
func gitReads(t *testing.T, text string) (settings []Setting, ok bool) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("git", "config", "--no-includes", "--null", "--file", file, "--list").Output()
	if err != nil {
		t.Logf("git refuses %q: %s", text, out)
		return nil, false
	}
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if key, value, hasValue := strings.Cut(entry, "\n"); key != "" {
			settings = append(settings, Setting{key, value, !hasValue})
		}
	}
	return settings, true
}

// sameAsGit holds our reading of a configuration to git's, where git reads it at all. Before 2.45
// git made spaces of other blanks within a value.
func sameAsGit(t *testing.T, text string) {
	t.Helper()
	want, ok := gitReads(t, text)
	same := func(a, b Setting) bool {
		space := strings.NewReplacer("\t", " ", "\r", " ")
		a.Value, b.Value = space.Replace(a.Value), space.Replace(b.Value)
		return a == b
	}
	if got := ParseConfig(text); ok && !slices.EqualFunc(got, want, same) {
		t.Errorf("%q: we read %+v, git reads %+v", text, got, want)
	}
}

func TestParseConfigMatchesGit(t *testing.T) {
	for _, text := range configurations {
		sameAsGit(t, text)
	}
}

func FuzzConfiguration(f *testing.F) {
	for _, text := range configurations {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsRune(text, 0) {
			return
		}
		sameAsGit(t, text)
	})
}

// Whatever we write, git must read as what we meant.
func FuzzFormatConfig(f *testing.F) {
	f.Add("remote", "a b\"c\\", "url", "x # y ; \"z\"\n\t\\ ")
	f.Add("core", "", "bare", " true ")
	f.Fuzz(func(t *testing.T, section, sub, name, value string) {
		word := func(s string) bool {
			return s != "" && s[0] >= 'a' && s[0] <= 'z' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
		}
		if !word(section) || !word(name) || strings.ContainsAny(sub, "\n\x00") || strings.ContainsAny(value, "\x00\r") {
			t.Skip()
		}
		key := section + "." + sub + "." + name
		if sub == "" {
			key = section + "." + name
		}
		want := []Setting{{Key: key, Value: value}}
		text := FormatConfig(want)
		if got, ok := gitReads(t, text); !ok || !slices.Equal(got, want) {
			t.Errorf("git reads %q as %+v, want %+v", text, got, want)
		}
		sameAsGit(t, text)
	})
}
