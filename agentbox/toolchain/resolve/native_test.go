package resolve

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentbox/agentbox/toolchain"
)

// latestAnswer is what a registry says of a package with one release, and a newer one that is not the
// latest.
func latestAnswer(version, engines string) string {
	dist := fmt.Sprintf(`{"tarball": "https://registry.example/a.tgz", "integrity": "sha512-%s"}`, base64.StdEncoding.EncodeToString(make([]byte, 64)))
	return fmt.Sprintf(`{"dist-tags": {"latest": %q, "next": "99.0.0"}, "versions": {%q: {"engines": %s, "dist": %s}, "99.0.0": {"dist": %s}}}`, version, version, engines, dist, dist)
}

func TestParseLatest(t *testing.T) {
	for answer, want := range map[string]string{
		latestAnswer("2.1.332", `{"node": ">=22.0.0"}`): "2.1.332 >=22.0.0",
		latestAnswer("2.1.332", `["node >= 22"]`):       "2.1.332 ",
		latestAnswer("2.1.332", `null`):                 "2.1.332 ",
		latestAnswer("2.1.332", `{"node": "$(id)"}`):    "2.1.332 ",
		latestAnswer("2.1.332-linux-x64", `{}`):         "none",
		`{"dist-tags": {"latest": "1.0.0"}}`:            "none",
		"":                                              "none",
	} {
		got := "none"
		if latest, ok := ParseLatest("@example/ours", strings.NewReader(answer)); ok {
			got = latest.Version + " " + latest.Node
			if latest.Path != "@example/ours/-/ours-2.1.332.tgz" || len(latest.SHA512) != 128 {
				t.Errorf("%+v", latest.Release)
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", answer, got, want)
		}
	}
}

func FuzzParseLatest(f *testing.F) {
	f.Add(latestAnswer("1.2.3", `{"node": ">=20"}`))
	f.Fuzz(func(t *testing.T, s string) {
		latest, ok := ParseLatest("ours", strings.NewReader(s))
		if ok && (!toolchain.ExactVersion().MatchString(latest.Version) || len(latest.SHA512) != 128 || strings.ContainsAny(latest.Node, "\n$`;")) {
			t.Errorf("%+v", latest)
		}
	})
}

// A native program takes the place of Node.js and npm's package where the registry has it; otherwise
// Node.js is the one that the latest release asks for.
func TestWithNatives(t *testing.T) {
	var needs toolchain.Needs
	for tool, version := range map[toolchain.Tool]string{toolchain.Node: ">=16", toolchain.Package: "@example/ours", toolchain.Native: "@example/ours-linux-x64 bin/ours"} {
		n, err := toolchain.NewNeed(tool, version, "agent ours")
		if err != nil {
			t.Fatal(err)
		}
		needs = append(needs, n)
	}
	needs.Sort()
	if got := PackagesOfLatest(needs); !slices.Equal(got, []string{"@example/ours-linux-x64", "@example/ours"}) {
		t.Errorf("asks for %q", got)
	}
	release := Release{Version: "1.2.3", Path: "p", URL: "https://registry.example/p", SHA512: "00"}
	left, programs := WithNatives(needs, map[string]Latest{"@example/ours-linux-x64": {Release: release}})
	plan := Resolve(left, Available{})
	plan.Native = programs
	if got := plan.Commands(); len(left) != 0 || len(got) != 1 || got[0][len(got[0])-1] != "bin/ours" {
		t.Errorf("left %v, runs %q", left, got)
	}
	left, programs = WithNatives(needs, map[string]Latest{"@example/ours": {Release: release, Node: ">=22.19.0"}})
	if got := left.Constraints(toolchain.Node); len(programs) != 0 || !slices.Equal(got, []string{">=16", ">=22.19.0"}) || len(left.ForTool(toolchain.Package)) != 1 {
		t.Errorf("left %v, with Node.js %q", left, got)
	}
	for _, bad := range []string{"@example/ours", "ours ../bin/x", "ours /bin/x", "ours a b", "git+ssh://x y"} {
		if n, err := toolchain.NewNeed(toolchain.Native, bad, ""); err == nil {
			t.Errorf("%q is %+v", bad, n)
		}
	}
}
