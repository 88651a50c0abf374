package project

import (
	"os"
	"os/exec"
	"path/filepath"
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
}

func gitReads(t *testing.T, text string) (url string, ok bool) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("git", "config", "--no-includes", "--file", file, "--list").CombinedOutput(); err != nil {
		t.Logf("git refuses %q: %s", text, out)
		return "", false
	}
	out, _ := exec.Command("git", "config", "--no-includes", "--null", "--file", file, "--get-all", "remote.origin.url").Output()
	url, _, _ = strings.Cut(string(out), "\x00")
	return url, true
}

func TestAConfigurationIsReadAsGitReadsIt(t *testing.T) {
	for _, text := range configurations {
		if want, ok := gitReads(t, text); ok && originOf(text) != want {
			t.Errorf("%q: origin is %q, git says %q", text, originOf(text), want)
		}
	}
}

func FuzzConfiguration(f *testing.F) {
	for _, text := range configurations {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		url := originOf(text)
		if strings.ContainsRune(text, 0) || strings.Contains(text, markKey) {
			return
		}
		if want, ok := gitReads(t, text); ok && url != want {
			t.Errorf("%q: origin is %q, git says %q", text, url, want)
		}
		canonical(url, "/base")
	})
}
