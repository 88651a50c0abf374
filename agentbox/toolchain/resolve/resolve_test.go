package resolve

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"agentbox/agentbox/toolchain"
)

func TestResolve(t *testing.T) {
	bookworm := Candidates{"golang-go": "1.19", "nodejs": "18.19.0", "python3": "3.11.2", "rustc": "1.63.0", "make": "4.3"}
	for name, test := range map[string]struct {
		needs toolchain.Needs
		want  Plan
	}{
		"go of the distribution": {toolchain.Needs{{Tool: toolchain.Go, Constraint: "1.18"}}, Plan{Packages: []string{"golang-go"}}},
		"newer go":               {toolchain.Needs{{Tool: toolchain.Go, Constraint: "1.21"}, {Tool: toolchain.Go, Constraint: "1.22.3"}}, Plan{Go: "1.22.3"}},
		"candidate of go":        {toolchain.Needs{{Tool: toolchain.Go, Constraint: "1.20rc1"}}, Plan{Go: "1.20rc1"}},
		"any node":               {toolchain.Needs{{Tool: toolchain.Node}}, Plan{Packages: []string{"nodejs", "npm"}}},
		"node here":              {toolchain.Needs{{Tool: toolchain.Node, Constraint: ">=18 <21"}}, Plan{Packages: []string{"nodejs", "npm"}}},
		"newer node": {toolchain.Needs{{Tool: toolchain.Node, Constraint: "20.1"}}, Plan{
			Packages: []string{"nodejs", "npm"}, Unmet: []Unmet{{Need: toolchain.Need{Tool: toolchain.Node, Constraint: "20.1"}, Candidate: "18.19.0", Image: "node:20"}},
		}},
		"pnpm":   {toolchain.Needs{{Tool: toolchain.PNPM, Constraint: "9.1.0"}}, Plan{Global: []string{"pnpm@9.1.0"}}},
		"yarn":   {toolchain.Needs{{Tool: toolchain.Yarn, Constraint: "4.1.0"}}, Plan{Global: []string{"@yarnpkg/cli-dist@4.1.0"}}},
		"yarn 1": {toolchain.Needs{{Tool: toolchain.Yarn, Constraint: "1"}}, Plan{Global: []string{"yarn@1"}}},
		"yarn 4": {toolchain.Needs{{Tool: toolchain.Yarn, Constraint: "4"}}, Plan{Global: []string{"@yarnpkg/cli-dist@4"}}},
		"python": {toolchain.Needs{{Tool: toolchain.Python, Constraint: "~=3.10"}}, Plan{Packages: packagesOf[toolchain.Python]}},
		"newer python": {toolchain.Needs{{Tool: toolchain.Python, Constraint: ">=3.12"}}, Plan{
			Packages: packagesOf[toolchain.Python], Unmet: []Unmet{{Need: toolchain.Need{Tool: toolchain.Python, Constraint: ">=3.12"}, Candidate: "3.11.2", Image: "python:3.12"}},
		}},
		"rust": {toolchain.Needs{{Tool: toolchain.Rust, Constraint: "1.70.0"}}, Plan{
			Packages: packagesOf[toolchain.Rust], Unmet: []Unmet{{Need: toolchain.Need{Tool: toolchain.Rust, Constraint: "1.70.0"}, Candidate: "1.63.0", Image: "rust:1.70"}},
		}},
		"rust of browsers": {toolchain.Needs{{Tool: toolchain.Rust, Constraint: "1.70.0"}, {Tool: toolchain.Rust, Constraint: "1.99"}}, Plan{
			Packages: newerOf[toolchain.Rust], Unmet: []Unmet{{Need: toolchain.Need{Tool: toolchain.Rust, Constraint: "1.99"}, Candidate: "1.96.0", Image: "rust:1.99"}},
		}},
		"refused": {toolchain.Needs{{Tool: toolchain.Node, Refused: "lts/none"}}, Plan{
			Packages: []string{"nodejs", "npm"}, Unmet: []Unmet{{Need: toolchain.Need{Tool: toolchain.Node, Refused: "lts/none"}, Candidate: "18.19.0"}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			have := maps.Clone(bookworm)
			if name == "rust of browsers" {
				have["rustc-web"] = "1.96.0"
			}
			if got := Resolve(test.needs, Available{Distribution: have}); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}

// releasesOf returns releases with these versions.
func releasesOf(versions ...string) (out Releases) {
	for _, v := range versions {
		out = append(out, Release{Version: v})
	}
	return out
}

// Node.js comes from the registry if that has an acceptable version, and is not installed if the
// box has one.
func TestResolveNode(t *testing.T) {
	nodes := releasesOf("17.9.1", "18.20.8", "20.1.0", "20.19.5", "21.7.3", "22.20.0", "24.10.0", "25.1.0")
	npms := releasesOf("9.9.4", "10.9.2", "10.9.4", "11.6.2", "12.2.0")
	for name, test := range map[string]struct {
		has                    string
		wanted                 []string
		node, npm, unmet, asks string
	}{
		"any":                           {"", nil, "24.10.0", "11.6.2", "", ""},
		"a line":                        {"", []string{"20"}, "20.19.5", "10.9.4", "", ""},
		"two files":                     {"", []string{">=20", "18 || 22"}, "22.20.0", "10.9.4", "", ""},
		"the newest that lasts":         {"", []string{">=21"}, "24.10.0", "11.6.2", "", ""},
		"one that does not last":        {"", []string{">=20.20 <22"}, "21.7.3", "10.9.4", "", ""},
		"an old one":                    {"", []string{"17"}, "17.9.1", "9.9.4", "", ""},
		"it is here":                    {"22.1.0", []string{">=20"}, "", "", "", ""},
		"another is here":               {"18.1.0", []string{">=20"}, "24.10.0", "11.6.2", "", ""},
		"of the distribution":           {"", []string{"16"}, "", "", "", "nodejs npm"},
		"nowhere, but one is here":      {"18.1.0", []string{"99"}, "", "", "99", "nodejs npm"},
		"nowhere":                       {"", []string{"99"}, "24.10.0", "11.6.2", "99", "nodejs npm"},
		"a version that does not exist": {"", []string{"20.99.0"}, "20.19.5", "10.9.4", "20.99.0", "nodejs npm"},
		"the first of two that differ":  {"", []string{"22", "^20"}, "22.20.0", "10.9.4", "^20", "nodejs npm"},
		"the other order":               {"", []string{"^20", "22"}, "20.19.5", "10.9.4", "22", "nodejs npm"},
		"the first that exists":         {"", []string{"99", "^20", ">=18"}, "20.19.5", "10.9.4", "99", "nodejs npm"},
	} {
		t.Run(name, func(t *testing.T) {
			needs := toolchain.Needs{{Tool: toolchain.Package, Constraint: "tool"}}
			for _, c := range append(test.wanted, "") {
				needs = append(needs, toolchain.Need{Tool: toolchain.Node, Constraint: c})
			}
			offer := Available{Node: test.has, Nodes: nodes, NPMs: npms}
			if got := strings.Join(PackagesToQuery(needs, offer), " "); got != test.asks {
				t.Errorf("the distribution is asked for %q", got)
			}
			offer.Distribution = Candidates{"nodejs": "16.2.0"}
			p := Resolve(needs, offer)
			var unmet []string
			for _, u := range p.Unmet {
				unmet = append(unmet, u.Constraint)
			}
			if p.NodeJS.Version != test.node || p.NPM.Version != test.npm || strings.Join(unmet, " ") != test.unmet || test.unmet == "" && strings.Join(p.Packages, " ") != test.asks {
				t.Errorf("%+v", p)
			}
		})
	}
}

func TestPythonRanges(t *testing.T) {
	for specifiers, fits := range map[string]bool{
		">=3.9": true, ">=3.9,<4": true, "~=3.11": true, "~=3.10.1": false, "==3.11.*": true, "==3.11.2": true, "===3.11.2": true,
		"!=3.11.2": false, "^3.9": true, "3.11": true, "3.12": false, ">= 3.8, < 3.12": true, ",,": false,
	} {
		if satisfies("3.11.2", pythonRange(specifiers)) != fits {
			t.Errorf("3.11.2 in %q: not %v", specifiers, fits)
		}
	}
}

// What is not met is said with what the box has, why, and what would do.
func TestUnmetText(t *testing.T) {
	needs := toolchain.Needs{{Tool: toolchain.Node, Constraint: "22", File: ".nvmrc"}, {Tool: toolchain.Node, Constraint: "^20", File: "web/package.json"}, {Tool: toolchain.PNPM, Constraint: "9.1.0", File: "package.json"}, {Tool: toolchain.PNPM, Constraint: "^8", File: "web/package.json"},
		{Tool: toolchain.Java, Constraint: "21", File: ".java-version"}, {Tool: toolchain.Java, Constraint: "17.0.1", File: "pom"}, {Tool: toolchain.Ruby, Constraint: "3.1.2", File: ".ruby-version"}, {Tool: toolchain.CMake, Constraint: "3.28", File: ".tool-versions"}}
	offer := Available{Distribution: Candidates{"default-jdk-headless": "1.17", "ruby": "3.1", "cmake": "3.25.1"}, Nodes: releasesOf("20.1.0", "22.20.0"), NPMs: releasesOf("10.9.2")}
	p := Resolve(needs, offer)
	p.CheckImages(func(image string) (bool, error) { return image == "eclipse-temurin:21", nil })
	var got []string
	for _, u := range p.Unmet {
		got = append(got, u.String())
	}
	want := []string{
		"web/package.json asks for node ^20; the box has 22.20.0, for .nvmrc (toolchain: in agentbox.yaml chooses another)",
		"web/package.json asks for pnpm ^8; the box has 9.1.0, for package.json (toolchain: in agentbox.yaml chooses another)",
		".java-version asks for java 21; the box has 17, for pom (image: eclipse-temurin:21 in agentbox.yaml has it)",
		".tool-versions asks for cmake 3.28; the box has 3.25.1 (packages: or setup: in agentbox.yaml can install it)",
	}
	if !slices.Equal(got, want) || !slices.Equal(p.Global, []string{"pnpm@9.1.0"}) {
		t.Errorf("got\n%s\n%v", strings.Join(got, "\n"), p.Global)
	}
}

// npm comes with Node.js unless a file asks for another, which must run on that Node.js.
func TestResolveNPM(t *testing.T) {
	npms := releasesOf("10.9.2", "11.6.2", "12.2.0")
	npms[2].Node = ">=24"
	for name, test := range map[string]struct {
		has, node          string
		npms               []string
		npm, global, unmet string
		notes              int
	}{
		"none":                    {"", "24", nil, "11.6.2", "", "", 0},
		"another":                 {"", "24", []string{"^10"}, "10.9.2", "", "", 0},
		"any":                     {"", "24", []string{">=10"}, "11.6.2", "", "", 0},
		"without scripts":         {"", "24", []string{"12"}, "12.2.0", "", "", 1},
		"not on this Node.js":     {"", "22", []string{"12"}, "10.9.2", "", "12", 0},
		"two":                     {"", "24", []string{"12", "^10"}, "12.2.0", "", "^10", 1},
		"beside that of the box":  {"22.1.0", "22", []string{"^10"}, "", "npm@^10", "", 0},
		"the box's":               {"22.1.0", "22", []string{""}, "", "", "", 0},
		"a newer one for the box": {"24.1.0", "24", []string{"^12.1"}, "", "npm@^12.1", "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			needs := toolchain.Needs{{Tool: toolchain.Node, Constraint: test.node}}
			for _, c := range test.npms {
				needs = append(needs, toolchain.Need{Tool: toolchain.NPMTool, Constraint: c})
			}
			p := Resolve(needs, Available{Node: test.has, Nodes: releasesOf("22.20.0", "24.10.0"), NPMs: npms})
			unmet := ""
			for _, u := range p.Unmet {
				unmet += u.Constraint
			}
			if p.NPM.Version != test.npm || strings.Join(p.Global, " ") != test.global || unmet != test.unmet || len(p.Notes) != test.notes {
				t.Errorf("%+v", p)
			}
		})
	}
}

// Versions come from the repository, so commands may only have them as arguments of their own.
func TestCommandsQuoteNothing(t *testing.T) {
	p := Plan{Packages: []string{"make"}, Go: "1.22", NodeJS: Release{Version: "22.1.0", URL: "https://a.example/n"}, Global: []string{"pnpm"}, Pip: []string{"x"}}
	scripts := []string{installGo, installNode, installPrograms, installPip}
	for _, argv := range p.Commands() {
		if argv[0] == "sh" && (len(argv) < 5 || !slices.Contains(scripts, argv[2])) {
			t.Errorf("a script is not what was embedded: %q", argv[:2])
		}
	}
	if n := len(p.Commands()); n != 5 {
		t.Errorf("%d commands", n)
	}
}
