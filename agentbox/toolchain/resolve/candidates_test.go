package resolve

import (
	"maps"
	"strings"
	"testing"

	"agentbox/agentbox/toolchain"
)

func TestParseCandidates(t *testing.T) {
	const shown = "Package: golang-go\nSource: x\nVersion: 2:1.19~1\nDescription: a\n Version: 9\n\nPackage: nodejs\nVersion: 18.19.0+dfsg-6~deb12u2\n\nVersion: 7\n"
	if got := ParseCandidates(strings.NewReader(shown)); !maps.Equal(got, Candidates{"golang-go": "1.19", "nodejs": "18.19.0"}) {
		t.Errorf("%v", got)
	}
}

func TestCandidatesAfterLongLine(t *testing.T) {
	shown := "Package: a\nVersion: 1\nDescription: " + strings.Repeat("x", 1<<20) + "\n\nPackage: b\nVersion: 2\n"
	if got := ParseCandidates(strings.NewReader(shown)); !maps.Equal(got, Candidates{"a": "1", "b": "2"}) {
		t.Errorf("%v", got)
	}
}

func TestInstalledPackagesAreNotAdded(t *testing.T) {
	have := Installed([]string{"python3=3.11.2-1+b1", "python3-venv:amd64=3.11.2-1+b1", "make=4.3-4.1", "odd"})
	needs := toolchain.Needs{{Tool: toolchain.Python}, {Tool: toolchain.Make}}
	if !Satisfied(needs, have) || Satisfied(append(needs, toolchain.Need{Tool: toolchain.Go}), have) || Satisfied(append(needs, toolchain.Need{Tool: toolchain.PNPM}), have) {
		t.Error("settled is wrong")
	}
	p := Resolve(needs, Available{Distribution: have}).Without(have)
	if got := strings.Join(p.Packages, " "); got != "python3-dev python3-pip" {
		t.Errorf("adds %s", got)
	}
	have["nodejs"] = "18.1.0"
	if !Satisfied(toolchain.Needs{{Tool: toolchain.Node, Constraint: ">=18"}}, have) || Satisfied(toolchain.Needs{{Tool: toolchain.Node, Constraint: ">=18"}, {Tool: toolchain.Node, Constraint: "20"}}, have) {
		t.Error("an old Node.js settles what asks for a new one")
	}
}

func FuzzParseCandidates(f *testing.F) {
	f.Add("Package: a\nVersion: 1:2-3\n\n")
	f.Fuzz(func(t *testing.T, s string) {
		for _, v := range ParseCandidates(strings.NewReader(s)) {
			if strings.ContainsAny(v, "-~+\n") {
				t.Errorf("%q", v)
			}
		}
	})
}
