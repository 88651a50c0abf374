package secrets

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What the tools of package indexes keep is found by host, without the values, and read by host.
func TestLogins(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	for name, text := range map[string]string{
		".netrc":   "machine Py.example login ada password pw1 # a comment\nmacdef init\nmachine no.example login x password y\n\nmachine git.example\n  login bob\n  password pw2\ndefault login anonymous password z\n",
		".npmrc":   "registry=https://npm.example/\n//npm.example/:_authToken=tok\n//npm.example/team/:_auth=" + "YWRhOnB3Mw==" + "\n//v.example/:_authToken=${NPM_TOKEN}\n//u.example/:username=cy\n//u.example/:_password=cHc0\n//bad.example/:_auth=%%\n",
		"pip.conf": "[global]\nindex-url = https://eve:p%40w@pip.example:8443/simple\nextra-index-url = https://pip2.example/simple\n",
	} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string][]string{
		".netrc":   {"py.example ada pw1", "git.example bob pw2"},
		".npmrc":   {"npm.example  tok", "npm.example/team ada pw3", "v.example  from NPM_TOKEN", "u.example cy pw4"},
		"pip.conf": {"pip.example:8443 eve p@w"},
	}
	env := func(name string) (string, bool) { return "from " + name, true }
	for name, want := range want {
		all, err := Logins(home, filepath.Join(home, name))
		var got []string
		for _, l := range all {
			ref, parseErr := Parse(l.From.String())
			v, valueErr := ref.Value(t.Context(), Purpose{Name: "X", Env: env})
			if parseErr != nil || valueErr != nil {
				t.Errorf("%s: %v, %v", l.From, parseErr, valueErr)
			}
			if l.Bearer != (l.User == "") {
				t.Errorf("%s: bearer %v, user %q", l.Host, l.Bearer, l.User)
			}
			got = append(got, l.Host+" "+l.User+" "+v)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	for _, of := range []string{home + "/.netrc#other.example", home + "/.netrc", home + "/none#a.example", "/etc/passwd#a.example"} {
		r := Reference{Kind: LoginFile, Target: of}
		if v, err := r.Value(t.Context(), Purpose{Name: "X"}); err == nil || strings.Contains(err.Error(), "pw1") {
			t.Errorf("%s: %q, %v", of, v, err)
		}
	}
}

// Whatever is in a file, what is listed has no password in it and is a host.
func FuzzLogins(f *testing.F) {
	f.Add("machine a.example login b password c")
	f.Add("//a.example/:_authToken=x")
	f.Add("https://u:p@h.example/x")
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range []string{".netrc", ".npmrc", "pip.conf"} {
			all := parseLogins(name, text)
			for _, l := range all {
				if len(all) > maxLogins || strings.ContainsAny(l.Host, "@ \n\"'#") || l.password+l.variable == "" {
					t.Errorf("%s: %+v", name, l)
				}
			}
		}
	})
}
