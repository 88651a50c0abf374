package resolve

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/toolchain"
)

// In this file, the tools that own a format say what files in it mean.

// npmModules returns the modules of the installed npm.
func npmModules(t *testing.T) string {
	t.Helper()
	npm, err := exec.LookPath("npm")
	if err == nil {
		npm, err = filepath.EvalSymlinks(npm)
	}
	if err != nil {
		t.Skip("npm is not installed")
	}
	return filepath.Join(filepath.Dir(filepath.Dir(npm)), "node_modules")
}

// node runs a script that prints JSON.
func node(t *testing.T, script string, into any, args ...string) {
	t.Helper()
	out, err := exec.Command("node", append([]string{"-e", script}, args...)...).Output()
	if err == nil {
		err = json.Unmarshal(out, into)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// Ranges mean to us what they mean to npm.
func TestRangesAreThoseOfNPM(t *testing.T) {
	ranges := []string{
		"18", "18.x", "^18", "~18.1", ">=18", ">=18 <21", "18 || 20", "^18.17.0 || >=20", "*", "x", "v20.1.0", "=20.1.0", "20.1", "~20", ">20", ">20.1", "<=20", "<=20.1", "<20",
		"18 - 20", "18.1 - 20.2.1", ">= 18", "^ 20", "18.X", "^18 || ^20 || >=22", ">=18.0.0 <19 || >=20", "20.1.x", "^0.1", "~0.1.2", "^20.1", ">=20.1.0 <20.1.0", "<18 >20", "20.01",
	}
	versions := []string{"0.1.2", "0.2.0", "16.20.2", "17.9.9", "18.0.0", "18.1.0", "18.17.0", "18.20.8", "19.0.0", "20.0.0", "20.1.0", "20.1.5", "20.2.0", "20.2.1", "20.2.2", "21.0.0", "22.20.0", "24.1.0"}
	var said map[string][]string
	semver := filepath.Join(npmModules(t), "semver")
	all, err := json.Marshal([][]string{ranges, versions})
	if err != nil {
		t.Fatal(err)
	}
	node(t, `const s = require(process.argv[1]), [rs, vs] = JSON.parse(process.argv[2]); console.log(JSON.stringify(Object.fromEntries(rs.map(r => [r, vs.filter(v => s.satisfies(v, r))]))))`, &said, semver, string(all))
	for _, r := range ranges {
		var got []string
		for _, v := range versions {
			if need, err := toolchain.NewNeed(toolchain.Node, r, "f"); err == nil && (need.Constraint == "" || satisfies(v, need.Constraint)) {
				got = append(got, v)
			}
		}
		if !slices.Equal(got, said[r]) {
			t.Errorf("%q: got %v, npm %v", r, got, said[r])
		}
	}
}

// npmWants matches what npm asks for in EBADDEVENGINES.
var npmWants = agentbox.Pattern(`Invalid (?:semver )?version "([^"]*)" does not match`)

// What we read in devEngines is what npm checks.
func TestDevEnginesAreThoseOfNPM(t *testing.T) {
	check := filepath.Join(npmModules(t), "npm-install-checks/lib/dev-engines.js")
	if _, err := os.Stat(check); err != nil {
		t.Skip("the installed npm does not know devEngines")
	}
	for _, text := range []string{
		`{"runtime":{"name":"node","version":"^99.1"}}`,
		`{"runtime":[{"name":"node","version":">=98"},{"name":"bun"}]}`,
		`{"runtime":{"name":"node","version":"99.1.0","onFail":"warn"}}`,
		`{"packageManager":{"name":"npm","version":"^99"}}`,
		`{"runtime":{"name":"node"}}`,
	} {
		var said []string
		node(t, `const {checkDevEngines: c} = require(process.argv[1]), cur = {runtime: {name: "node", version: "1.0.0"}, packageManager: {name: "npm", version: "1.0.0"}};
			console.log(JSON.stringify(c(JSON.parse(process.argv[2]), cur).flatMap(e => e.errors.map(String))))`, &said, check, text)
		want := ""
		for _, line := range said {
			if found := npmWants().FindStringSubmatch(line); found != nil {
				want = found[1]
			}
		}
		needs := needsOf(t, `{"devEngines":`+text+`}`)
		if got := strings.Join(append(needs.Constraints(toolchain.Node), needs.Constraints(toolchain.NPMTool)...), " "); got != want {
			t.Errorf("%s: got %q, npm wants %q", text, got, want)
		}
	}
}

// needsOf are the needs of a repository with this package.json.
func needsOf(t *testing.T, content string) toolchain.Needs {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	return toolchain.Detect(root, ".").Needs
}
