package resolve

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

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
