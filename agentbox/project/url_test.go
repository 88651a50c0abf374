package project

import (
	"strings"
	"testing"
)

func TestEquivalentURLs(t *testing.T) {
	for want, urls := range map[string][]string{
		"example.com/org/app": {
			"https://example.com/org/app", "https://example.com/org/app.git", "https://example.com/org/app.git/", "HTTPS://Example.COM/org/app",
			"http://example.com:80/org/app", "https://token:x@example.com:443/org/app", "ssh://git@example.com/org/app.git", "ssh://git@example.com:22/org/app",
			"ssh://alice@example.com:22/org/app", "git@example.com:org/app.git", "example.com:org/app", "git@example.com:/org/app", "git://example.com:9418/org/app",
			"[git@example.com:22]:org/app", "[example.com]:org/app", "git@[example.com:443]:org/app", "ssh://git@example.com:022/org/app",
		},
		"example.com:8443/org/app": {"https://example.com:8443/org/app", "ssh://git@example.com:8443/org/app.git", "[example.com:8443]:org/app"},
		"[2001:db8::1]/app":        {"https://[2001:DB8::1]/app.git", "[2001:db8::1]:app", "ssh://git@[2001:db8::1]:22/app"},
		"example.com/~bob/app":     {"bob@example.com:app.git", "bob@example.com:~bob/app", "ssh://example.com/~bob/app", "bob@example.com:~/app", "ssh://bob@example.com/~/app.git", "ssh://bob:x@example.com/~/app"},
		"/srv/git/app.git":         {"/srv/git/app.git", "file:///srv/git/app.git", "/srv/git/x/../app.git/"},
		"/srv/app":                 {"/srv/app", "/srv/app/.git", "../app", "file:///srv/app/"},
		"/base/a:b":                {"./a:b"},
		"ext::sh -c x":             {"ext::sh -c x"},
		"":                         {"", "  ", "https://example.com/a\nb", "https://example.com/\x1b[2J"},
	} {
		for _, url := range urls {
			base := "/srv/base"
			if want == "/base/a:b" {
				base = "/base"
			}
			if got := canonical(url, base); got != want {
				t.Errorf("%q is named %q, want %q", url, got, want)
			}
		}
	}
}

// A name is shown to people and to the team, so it must not have the password of a URL that we
// cannot take apart. A checkout with such an origin is named by its path.
func TestNameHasNoPassword(t *testing.T) {
	for _, url := range []string{
		"https://user:s3@cret@example.com/org/app", "https://s3@cret@example.com/org/app", "https://user:s3cret@-example-/org/app", "https://s3?cret@example.com/org/app",
		"ssh://user:s3cret@-example-/org/app", "ssh://user:s3@cret@example.com/app", "ssh://u:s3cret@example.com/~/app", "[u:s3cret@example.com]:app", "[u:s3@cret@example.com]:app",
		"foo::https://user:s3cret@example.com/org/app", "foo::https://u:s3@cret@example.com/app",
	} {
		if name := canonical(url, "/base"); strings.Contains(name, "cret") {
			t.Errorf("%q is named %q", url, name)
		}
	}
	if name := canonical("foo::region://profile@app", "/base"); name != "foo::region://profile@app" {
		t.Errorf("a user without a password: %q", name)
	}
}

// Two repositories must never have one name, or one would get what was approved for the other.
func TestDifferentURLs(t *testing.T) {
	seen := map[string]string{}
	for _, url := range []string{
		"https://example.com/org/app", "https://example.com/Org/App", "https://example.com/org/app/x", "https://example.com/org", "https://example.com/org/app.git.git",
		"https://example.com:444/org/app", "https://example.com:4430/org/app", "https://example.com.evil.example/org/app", "https://example.com@evil.example/org/app",
		"https://evil.example/example.com/org/app", "ssh://user@elsewhere@example.com/org/app", "example.com/org/app", "./example.com/org/app", "/example.com/org/app",
		"file:///org/app", "file://example.com/org/app", "https://evil.example#example.com/org/app", "ssh://evil.example\\@example.com/org/app",
		"https:///example.com/org/app", "https://example.com:22:443/org/app", "bob@example.com:org/app", "alice@example.com:org/app", "bob@example.com:~/x", "ssh://alice@example.com/~/x", "https://example.com/~/x", "example.com:x", "foo::https://example.com/org/app",
		"https://example.com/org/app?x", "https://example.com/org/../org/app", "https://example.com//evil/../org/app", "https://exаmple.com/org/app", // a Cyrillic letter
		"https://example.com:443x/org/app", "https://example.com./org/app", ":org/app", "-oProxyCommand=x:org/app", "ssh://-oProxyCommand=x/org/app",
	} {
		name := canonical(url, "/base")
		if other, ok := seen[name]; ok && name != "" && name != "/base/example.com/org/app" {
			t.Errorf("%q and %q are both named %q", url, other, name)
		}
		seen[name] = url
	}
}
