package registries

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// asking has the indexes of a machine answer from a table, and says what was asked.
func asking(m Machine, answers map[string]string) (Machine, *[]string) {
	var asked []string
	m.Get = func(_ context.Context, url, _ string) ([]byte, error) {
		asked = append(asked, url)
		if answer, ok := answers[url]; ok {
			return []byte(answer), nil
		}
		return nil, errors.New("404")
	}
	return m, &asked
}

func TestIndexFileHosts(t *testing.T) {
	m, asked := asking(machine(map[string]string{
		"home/ada/.cargo/config.toml": "[source.mirror]\nregistry = \"sparse+https://crates.example/index/\"\n[source.old]\nregistry = \"https://git.example/index\"\n",
		"home/ada/.npmrc":             "@org:registry=https://npm.corp.example/npm/\n",
	}, map[string]string{
		"npm config get registry": "https://npm.example/\n",
		"pip config list":         "global.index-url='https://pip.example/simple/'\nglobal.find-links='https://links.example/x'\n",
	}), map[string]string{
		"https://pip.example/simple/pip/":          `{"files": [{"url": "https://files.example/a/pip-1.whl"}, {"url": "../../pip-2.tar.gz"}, {"url": "https://files.example/b/pip-1.tar.gz"}]}`,
		"https://npm.example/npm/latest":           `{"dist": {"tarball": "https://npm.example/npm/-/npm-1.tgz"}}`,
		"https://npm.corp.example/npm/npm/latest":  `{"dist": {"tarball": "https://tarballs.corp.example:8443/npm-1.tgz"}}`,
		"https://crates.example/index/config.json": `{"dl": "https://static.example/crates/{crate}/{version}/download", "api": "https://api.example"}`,
	})
	var got []string
	for _, f := range tools(m) {
		if len(f.Rule.Methods) > 0 {
			got = append(got, f.Rule.String()+" "+f.From)
		}
	}
	want := []string{
		"GET,HEAD files.example:443/**.whl pip: files of pip.example", "GET,HEAD files.example:443/**.whl.metadata pip: files of pip.example",
		"GET,HEAD files.example:443/**.tar.gz pip: files of pip.example", "GET,HEAD files.example:443/**.tar.gz.metadata pip: files of pip.example", "GET,HEAD files.example:443/**.zip pip: files of pip.example",
		"GET,HEAD tarballs.corp.example:8443/**.tgz npm: files of npm.corp.example",
		"GET,HEAD static.example:443/**.crate cargo: files of crates.example", "GET,HEAD static.example:443/**/download cargo: files of crates.example",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("learned:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(*asked) != 4 {
		t.Errorf("asked %q", *asked)
	}
}

// What an index says opens neither addresses, nor more than a few hosts, nor anything in the clear.
func TestAttackHostileIndex(t *testing.T) {
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf(`{"url": "https://h%d.example/x.whl"}`, i))
	}
	for what, c := range map[string]struct {
		answer string
		hosts  int
	}{
		"addresses":          {`{"files": [{"url": "https://10.0.0.1/x.whl"}, {"url": "https://[::1]/x.whl"}, {"url": "https://0x7f.1/x.whl"}]}`, 0},
		"wildcards":          {`{"files": [{"url": "https://*.example/x.whl"}, {"url": "https://*/x.whl"}]}`, 0},
		"in the clear":       {`{"files": [{"url": "http://files.example/x.whl"}, {"url": "ftp://files.example/x.whl"}, {"url": "file:///etc/x.whl"}]}`, 0},
		"a rule in a name":   {`{"files": [{"url": "https://a.example\n*/x.whl"}, {"url": "https://a.example%2f*/x.whl"}]}`, 0},
		"very many":          {`{"files": [` + strings.Join(many, ",") + `]}`, maxHosts},
		"a page, with links": {`<a href="https://docs.example/">docs</a> <a HREF = 'https://files.example/x.whl#sha256=1'>x</a><base href="https://evil.example/x.whl.html">`, 1},
		"nothing":            {`{}`, 0},
		"garbage":            {"\x00\xff{[", 0},
	} {
		t.Run(what, func(t *testing.T) {
			m, _ := asking(machine(nil, map[string]string{"pip config list": "global.index-url='https://pip.example/simple'\n"}), map[string]string{"https://pip.example/simple/pip/": c.answer})
			hosts := map[string]bool{}
			for _, f := range tools(m) {
				if len(f.Rule.Methods) > 0 {
					hosts[f.Rule.Host] = true
					if f.Rule.Path == "" || f.Rule.From != 443 || f.Rule.Prefix.IsValid() || strings.Contains(f.Rule.Host, "*") {
						t.Errorf("opens %s", f.Rule)
					}
				}
			}
			if len(hosts) != c.hosts {
				t.Errorf("learned %v", hosts)
			}
		})
	}
}

func TestAsk(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "elsewhere") }))
	defer elsewhere.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ok":
			fmt.Fprint(w, r.Header.Get("Accept"))
		case "/moved":
			http.Redirect(w, r, "/ok", http.StatusFound)
		case "/away":
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		case "/endless":
			for range 100 {
				_, _ = w.Write(make([]byte, 1<<20))
			}
		default:
			http.NotFound(w, r)
		}
	}))
	defer s.Close()
	for _, path := range []string{"/ok", "/moved"} {
		if b, err := fetchIndex(t.Context(), s.URL+path, "text/x"); err != nil || string(b) != "text/x" {
			t.Errorf("%s: %q %v", path, b, err)
		}
	}
	for _, url := range []string{s.URL + "/away", s.URL + "/missing", "http://a.example/", "https://127.0.0.1:1/"} {
		if b, err := fetchIndex(t.Context(), url, ""); err == nil {
			t.Errorf("%s: %q", url, b)
		}
	}
	if b, err := fetchIndex(t.Context(), s.URL+"/endless", ""); err != nil || len(b) != maxAnswer {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
