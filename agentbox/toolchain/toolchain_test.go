package toolchain

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// detect creates files, given as name and content, and detects from the root.
func detect(t *testing.T, files ...string) Found {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		name := filepath.Join(dir, files[i])
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(files[i+1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return detectIn(t, dir)
}

func detectIn(t *testing.T, dir string) Found {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	return Detect(root, ".")
}

func TestDetect(t *testing.T) {
	for name, test := range map[string]struct {
		files []string
		want  string // needs as TOOL CONSTRAINT FILE KEY
	}{
		"go line":            {[]string{"go.mod", "module m\n\ngo 1.22\n"}, "go 1.22 go.mod go"},
		"toolchain line":     {[]string{"go.mod", "module m\n\ngo 1.22\n\ntoolchain go1.23.4\n"}, "go 1.23.4 go.mod toolchain"},
		"go without version": {[]string{"go.mod", "module m\n"}, "go  go.mod "},
		"broken go.mod":      {[]string{"go.mod", "modul m"}, "go  go.mod "},
		"odd go line":        {[]string{"go.mod", "module m\n\ngo 1.22.3.4.5\n"}, "go 1.22 go.mod go"},
		"work":               {[]string{"go.work", "go 1.21\n\nuse ./a\n", "a/go.mod", "module a\n\ngo 1.20\n"}, "go 1.21 go.work go|go 1.20 a/go.mod go"},
		"node":               {[]string{"package.json", `{"engines":{"node":">=18 <21"}}`}, "node >=18 <21 package.json engines.node"},
		"nvmrc":              {[]string{".nvmrc", "v20.11.0\n", "package.json", "{}"}, "node 20.11.0 .nvmrc |node  package.json "},
		"lts":                {[]string{".nvmrc", "lts/iron # ours\n"}, "node 20 .nvmrc "},
		"pnpm":               {[]string{"package.json", `{"packageManager":"pnpm@9.1.0+sha512.ab"}`}, "node  package.json |pnpm 9.1.0 package.json packageManager"},
		"yarn":               {[]string{"package.json", `{}`, "yarn.lock", ""}, "node  package.json |yarn  yarn.lock "},
		"yarn 1":             {[]string{"package.json", `{}`, "yarn.lock", "# yarn lockfile v1\n\n\n"}, "node  package.json |yarn 1 yarn.lock version"},
		"yarn 4":             {[]string{"package.json", `{}`, "yarn.lock", "# Generated\n\n__metadata:\n  version: 8\n  cacheKey: 10\n" + strings.Repeat("\n", 2<<20)}, "node  package.json |yarn 4 yarn.lock version"},
		"pnpm 8":             {[]string{"package.json", `{}`, "pnpm-lock.yaml", "lockfileVersion: '6.0'\n"}, "node  package.json |pnpm 8 pnpm-lock.yaml lockfileVersion"},
		"pnpm unknown":       {[]string{"package.json", `{}`, "pnpm-lock.yaml", "lockfileVersion: 99.0\n"}, "node  package.json |pnpm  pnpm-lock.yaml "},
		"python":             {[]string{"pyproject.toml", "[project]\nrequires-python = '>=3.9,<4'\n"}, "python >=3.9,<4 pyproject.toml project.requires-python"},
		"poetry":             {[]string{"pyproject.toml", "[tool.poetry.dependencies]\npython = '^3.10'\n"}, "python ^3.10 pyproject.toml tool.poetry.dependencies.python"},
		"requirements":       {[]string{"requirements.txt", "x\n"}, "python  requirements.txt "},
		"rust":               {[]string{"Cargo.toml", "[package]\nrust-version = '1.70'\n"}, "rust 1.70 Cargo.toml rust-version"},
		"rust of workspace":  {[]string{"Cargo.toml", "[workspace.package]\nrust-version = '1.60'\n[package]\nrust-version.workspace = true\n"}, "rust 1.60 Cargo.toml rust-version"},
		"edition":            {[]string{"Cargo.toml", "[workspace.package]\nedition = '2024'\n[package]\nedition.workspace = true\n"}, "rust 1.85 Cargo.toml edition"},
		"odd edition":        {[]string{"Cargo.toml", "[package]\nedition = '1999'\n"}, "rust  Cargo.toml "},
		"Cargo.lock":         {[]string{"Cargo.toml", "[package]\nedition = '2015'\n", "Cargo.lock", "# generated\nversion = 4\n\n[[package]]\n"}, "rust  Cargo.toml |rust 1.78 Cargo.lock version"},
		"old Cargo.lock":     {[]string{"Cargo.toml", "[package]\n", "Cargo.lock", "[[package]]\nversion = \"4\"\n"}, "rust  Cargo.toml "},
		"channel":            {[]string{"rust-toolchain.toml", "[toolchain]\nchannel = '1.75.0'\n"}, "rust 1.75.0 rust-toolchain.toml toolchain.channel"},
		"both channels":      {[]string{"rust-toolchain", "1.70.0\n", "rust-toolchain.toml", "[toolchain]\nchannel = '1.75.0'\n"}, "rust 1.70.0 rust-toolchain "},
		"LFS":                {[]string{".gitattributes", "*.txt text\n*.bin filter=lfs diff=lfs merge=lfs -text\n"}, "git-lfs  .gitattributes "},
		"another filter":     {[]string{".gitattributes", "*.bin filter=lfs2\n# x filter=lfs\n"}, ""},
		"C":                  {[]string{"Makefile", "", "configure.ac", "", "CMakeLists.txt", ""}, "make  Makefile |cmake  CMakeLists.txt |autotools  configure.ac "},
		"asdf":               {[]string{".tool-versions", "golang 1.22.1\nnodejs 20.1.0 # x\nelixir 1.2\n"}, "go 1.22.1 .tool-versions golang|node 20.1.0 .tool-versions nodejs"},
		"several versions":   {[]string{".tool-versions", "python 3.10.1 3.9 system\nnodejs lts\nruby latest\ngolang ref:master\n"}, "go  .tool-versions golang|node  .tool-versions |python 3.10.1 .tool-versions python|ruby  .tool-versions "},
		"versions of asdf":   {[]string{".tool-versions", "nodejs lts-iron\njava temurin-17.0.1+12\npnpm latest:9\ncmake 3.28\nmaven 3.9\n"}, "node 20 .tool-versions nodejs|pnpm 9 .tool-versions pnpm|java  .tool-versions |java 17.0.1 .tool-versions java|cmake 3.28 .tool-versions cmake"},
		"mise": {[]string{"mise.toml", "[tools]\nnode = '22'\npython = ['3.12', '3.11']\n'core:rust' = '1.75.0'\n[tools.go]\nversion = '1.22'\n", ".tool-versions", "nodejs 18\nruby 3.3\nnode 16\n"},
			"go 1.22 mise.toml go|node 22 mise.toml node|python 3.12 mise.toml python|rust 1.75.0 mise.toml core:rust|ruby 3.3 .tool-versions ruby"},
		"places of mise": {[]string{".config/mise/config.toml", "[tools]\nnode = '18'\njava = '17'\n", ".config/mise/conf.d/a.toml", "[tools]\nruby = '3.1'\njava = '11'\n", ".mise.toml", "[tools]\nnode = '20'\n", "mise.local.toml", "[tools]\ngo = '1.1'\n"},
			"node 20 .mise.toml node|java 17 .config/mise/config.toml java|ruby 3.1 .config/mise/conf.d/a.toml ruby"},
		"devEngines": {[]string{"package.json", `{"devEngines":{"runtime":{"name":"node","version":"^22.1"},"packageManager":[{"name":"pnpm","version":"^9","onFail":"download"},{"name":"npm"}]},"engines":{"node":">=18"}}`},
			"node ^22.1 package.json devEngines.runtime|node >=18 package.json engines.node|pnpm ^9 package.json devEngines.packageManager"},
		"devEngines of another runtime": {[]string{"package.json", `{"devEngines":{"runtime":{"name":"bun","version":"1"}},"packageManager":"npm@10.9.2"}`}, "node  package.json |npm 10.9.2 package.json packageManager"},
		"fields of other types":         {[]string{"package.json", `{"devEngines":"x","volta":1,"packageManager":{},"engines":{"node":">=18"}}`}, "node >=18 package.json engines.node"},
		"volta":                         {[]string{"package.json", `{"volta":{"node":"20.1.0","npm":"10.2.0","yarn":"4.1.0"},"engines":{"node":">=18"}}`}, "node 20.1.0 package.json volta.node|npm 10.2.0 package.json volta.npm|yarn 4.1.0 package.json volta.yarn"},
		"volta extends":                 {[]string{"package.json", `{"volta":{"node":"20.1.0"}}`, "web/package.json", `{"volta":{"extends":"../package.json","npm":"10.2.0"}}`}, "node 20.1.0 package.json volta.node|node 20.1.0 web/package.json volta.node|npm 10.2.0 web/package.json volta.npm"},
		"volta extends itself":          {[]string{"package.json", `{"volta":{"extends":"package.json"}}`}, "node  package.json "},
		"nearest first":                 {[]string{"a/b/package.json", `{"engines":{"node":"18"}}`, ".nvmrc", "22", "web/package.json", `{"engines":{"node":"^20"}}`}, "node 22 .nvmrc |node ^20 web/package.json engines.node|node 18 a/b/package.json engines.node"},
		"monorepo":                      {[]string{"services/api/go.mod", "module a\n\ngo 1.22\n", "web/package.json", "{}"}, "go 1.22 services/api/go.mod go|node  web/package.json "},
		"not ours":                      {[]string{"node_modules/x/package.json", "{}", "vendor/y/go.mod", "module y", "testdata/go.mod", "module z"}, ""},
		"too deep":                      {[]string{"a/b/c/d/go.mod", "module a"}, ""},
		"nothing":                       {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, n := range detect(t, test.files...).Needs {
				got = append(got, strings.Join([]string{string(n.Tool), n.Constraint, n.File, n.Key}, " "))
			}
			if s := strings.Join(got, "|"); s != test.want {
				t.Errorf("got  %s\nwant %s", s, test.want)
			}
		})
	}
}

func TestDetectFindsLockfiles(t *testing.T) {
	got := detect(t, "go.mod", "module m", "go.sum", "", "web/package.json", "{}", "web/package-lock.json", "{}").Lockfiles
	if want := []string{"go.sum", "web/package-lock.json"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A repository cannot make this host read files outside of it, wait for ever, or send control
// characters to a terminal.
func TestDetectHostileRepository(t *testing.T) {
	dir, secret := t.TempDir(), filepath.Join(t.TempDir(), "go.mod")
	if err := os.WriteFile(secret, []byte("module m\n\ngo 1.20\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.Symlink(secret, filepath.Join(dir, "go.mod")),
		os.Symlink(filepath.Dir(secret), filepath.Join(dir, "sub")),
		syscall.Mkfifo(filepath.Join(dir, "package.json"), 0o644),
		os.Mkdir(filepath.Join(dir, "Makefile"), 0o755),
		os.WriteFile(filepath.Join(dir, ".nvmrc"), []byte("\x1b]0;owned\a$(reboot)\n"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan Found)
	go func() { done <- detectIn(t, dir) }()
	select {
	case found := <-done:
		if len(found.Needs) != 1 || found.Needs[0].Refused != "]0;owned$(reboot)" || found.Needs[0].Constraint != "" {
			t.Errorf("found %+v", found)
		}
	case <-time.After(5 * time.Minute):
		t.Fatal("waits for a FIFO")
	}
}

func TestResolve(t *testing.T) {
	bookworm := Candidates{"golang-go": "1.19", "nodejs": "18.19.0", "python3": "3.11.2", "rustc": "1.63.0", "make": "4.3"}
	for name, test := range map[string]struct {
		needs Needs
		want  Plan
	}{
		"go of the distribution": {Needs{{Tool: Go, Constraint: "1.18"}}, Plan{Packages: []string{"golang-go"}}},
		"newer go":               {Needs{{Tool: Go, Constraint: "1.21"}, {Tool: Go, Constraint: "1.22.3"}}, Plan{Go: "1.22.3"}},
		"candidate of go":        {Needs{{Tool: Go, Constraint: "1.20rc1"}}, Plan{Go: "1.20rc1"}},
		"any node":               {Needs{{Tool: Node}}, Plan{Packages: []string{"nodejs", "npm"}}},
		"node here":              {Needs{{Tool: Node, Constraint: ">=18 <21"}}, Plan{Packages: []string{"nodejs", "npm"}}},
		"newer node": {Needs{{Tool: Node, Constraint: "20.1"}}, Plan{
			Packages: []string{"nodejs", "npm"}, Unmet: []Unmet{{Need: Need{Tool: Node, Constraint: "20.1"}, Candidate: "18.19.0", Image: "node:20"}},
		}},
		"pnpm":   {Needs{{Tool: PNPM, Constraint: "9.1.0"}}, Plan{Global: []string{"pnpm@9.1.0"}}},
		"yarn":   {Needs{{Tool: Yarn, Constraint: "4.1.0"}}, Plan{Global: []string{"@yarnpkg/cli-dist@4.1.0"}}},
		"yarn 1": {Needs{{Tool: Yarn, Constraint: "1"}}, Plan{Global: []string{"yarn@1"}}},
		"yarn 4": {Needs{{Tool: Yarn, Constraint: "4"}}, Plan{Global: []string{"@yarnpkg/cli-dist@4"}}},
		"python": {Needs{{Tool: Python, Constraint: "~=3.10"}}, Plan{Packages: packagesOf[Python]}},
		"newer python": {Needs{{Tool: Python, Constraint: ">=3.12"}}, Plan{
			Packages: packagesOf[Python], Unmet: []Unmet{{Need: Need{Tool: Python, Constraint: ">=3.12"}, Candidate: "3.11.2", Image: "python:3.12"}},
		}},
		"rust": {Needs{{Tool: Rust, Constraint: "1.70.0"}}, Plan{
			Packages: packagesOf[Rust], Unmet: []Unmet{{Need: Need{Tool: Rust, Constraint: "1.70.0"}, Candidate: "1.63.0", Image: "rust:1.70"}},
		}},
		"rust of browsers": {Needs{{Tool: Rust, Constraint: "1.70.0"}, {Tool: Rust, Constraint: "1.99"}}, Plan{
			Packages: newerOf[Rust], Unmet: []Unmet{{Need: Need{Tool: Rust, Constraint: "1.99"}, Candidate: "1.96.0", Image: "rust:1.99"}},
		}},
		"refused": {Needs{{Tool: Node, Refused: "lts/none"}}, Plan{
			Packages: []string{"nodejs", "npm"}, Unmet: []Unmet{{Need: Need{Tool: Node, Refused: "lts/none"}, Candidate: "18.19.0"}},
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
			needs := Needs{{Tool: Package, Constraint: "tool"}}
			for _, c := range append(test.wanted, "") {
				needs = append(needs, Need{Tool: Node, Constraint: c})
			}
			offer := Available{Node: test.has, Nodes: nodes, NPMs: npms}
			if got := strings.Join(needs.PackagesToQuery(offer), " "); got != test.asks {
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
	needs := Needs{{Tool: Node, Constraint: "22", File: ".nvmrc"}, {Tool: Node, Constraint: "^20", File: "web/package.json"}, {Tool: PNPM, Constraint: "9.1.0", File: "package.json"}, {Tool: PNPM, Constraint: "^8", File: "web/package.json"},
		{Tool: Java, Constraint: "21", File: ".java-version"}, {Tool: Java, Constraint: "17.0.1", File: "pom"}, {Tool: Ruby, Constraint: "3.1.2", File: ".ruby-version"}, {Tool: CMake, Constraint: "3.28", File: ".tool-versions"}}
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
			needs := Needs{{Tool: Node, Constraint: test.node}}
			for _, c := range test.npms {
				needs = append(needs, Need{Tool: NPMTool, Constraint: c})
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

func TestToolsThatWeDoNotInstall(t *testing.T) {
	found := detect(t, "mise.toml", "[tools]\nterraform = '1'\n'npm:prettier' = '3'\nnode = '22'\n", ".tool-versions", "elixir 1.2\nterraform 0.9\n")
	var got []string
	for _, o := range found.Others {
		got = append(got, o.String())
	}
	const rest = ", which agentbox does not install: add it to packages: or setup: in agentbox.yaml"
	if want := []string{"mise.toml asks for npm:prettier 3" + rest, "mise.toml asks for terraform 1" + rest, ".tool-versions asks for elixir 1.2" + rest}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
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

func FuzzDetect(f *testing.F) {
	for _, seed := range []string{"module m\n\ngo 1.22\ntoolchain go1.22.1\n", `{"engines":{"node":">=18"}}`, "[project]\nrequires-python='>=3'\n", "lts/iron\n", "golang 1.22"} {
		f.Add(seed)
	}
	pins := map[string]string{".tool-versions": "asdf", "mise.toml": "mise"}
	names := []string{"mise.toml", "go.mod", "go.work", "package.json", ".nvmrc", "pyproject.toml", ".python-version", "Cargo.toml", "Cargo.lock", "rust-toolchain", ".tool-versions"}
	f.Fuzz(func(t *testing.T, content string) {
		s := &scan{}
		s.need(goNeed("go.mod", content))
		s.need(goNeed("go.work", content))
		s.need(needOf(Node, ".nvmrc", "", firstWord(content)))
		s.readPackageJSON("package.json", content)
		s.need(pyprojectNeed("pyproject.toml", content))
		s.need(needOf(Python, ".python-version", "", firstWord(content)))
		s.need(cargoNeed("Cargo.toml", content))
		s.need(channelNeed("rust-toolchain", content))
		if n, ok := lockNeed("Cargo.lock", content); ok {
			s.need(n)
		}
		for file := range pins {
			for _, p := range pinsIn(file, content) {
				for _, tool := range pinNames {
					s.need(needOf(tool, file, "", pinnedVersion(tool, p.version)))
				}
			}
		}
		for _, n := range s.found.Needs {
			if strings.ContainsAny(n.Constraint+n.Refused, "\x1b\n\x00") || strings.HasPrefix(n.Constraint, "--") || !slices.Contains(names, n.File) {
				t.Errorf("%+v", n)
			}
			if _, err := json.Marshal(Resolve(Needs{n}, Available{Distribution: Candidates{"nodejs": "18.1.0", "python3": "3.11.2"}, Nodes: releasesOf("20.1.0"), NPMs: releasesOf("10.1.0")})); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestEcosystems(t *testing.T) {
	needs := Needs{{Tool: Yarn}, {Tool: Go}, {Tool: Node}, {Tool: Make}, {Tool: Go}}
	if got := strings.Join(needs.Ecosystems(), " "); got != "go npm yarn" {
		t.Errorf("%s", got)
	}
	for version, want := range map[string]string{"1": "npm yarn", "1.22.22": "npm yarn", "4": "npm", "4.5.3": "npm", "10.0.0": "npm"} {
		if got := strings.Join(Needs{{Tool: Yarn, Constraint: version}}.Ecosystems(), " "); got != want {
			t.Errorf("yarn %s: %s", version, got)
		}
	}
}

// The one version that init writes must satisfy several files.
func TestCombined(t *testing.T) {
	asks := func(t Tool, versions ...string) (needs Needs) {
		for _, v := range versions {
			needs = append(needs, Need{Tool: t, Constraint: v})
		}
		return needs
	}
	for want, needs := range map[string]Needs{
		"1.22.3": asks(Go, "1.9", "1.22.3", "1.21"), "1.85": asks(Rust, "", "1.78", "1.85"), ">=18 <21 || >=18 22": asks(Node, ">=18", "<21 || 22"),
		">=3.9, <4": asks(Python, ">=3.9", "<4"), "9.1.0": asks(PNPM, "9.1.0", "8"), "": asks(CMake, ""),
		strings.Repeat("1", 70): asks(Node, strings.Repeat("1", 70), strings.Repeat("2", 70)),
	} {
		if got := needs.Combined(needs[0].Tool); got != want {
			t.Errorf("%v: %q", needs, got)
		}
	}
}

func TestEqualNeedsHaveEqualFingerprints(t *testing.T) {
	any, first := Need{Tool: Node, File: "a/package.json"}, Need{Tool: Rust, Constraint: "1.78", File: "Cargo.lock"}
	newer := Need{Tool: Rust, Constraint: "1.85", File: "Cargo.toml"}
	found := Needs{any, any, first, newer, {Tool: Rust}, {Tool: CMake}}
	written := Needs{any, newer, {Tool: CMake}} // as init writes it
	if found.Fingerprint() != written.Fingerprint() {
		t.Errorf("%q and %q", found.Fingerprint(), written.Fingerprint())
	}
	sums := map[string]Needs{}
	for _, needs := range []Needs{
		nil, {any}, {{Tool: Node, Constraint: "18"}}, {newer}, {first}, {{Tool: CMake}}, {any, {Tool: CMake}},
		{{Tool: Package, Constraint: "a"}}, {{Tool: Package, Constraint: "b"}}, {{Tool: Package, Constraint: "a"}, {Tool: Package, Constraint: "b"}},
	} {
		if other, found := sums[needs.Fingerprint()]; found {
			t.Errorf("%v and %v are told apart by nothing", needs, other)
		}
		sums[needs.Fingerprint()] = needs
	}
}

// TestToolchainFileWithoutChannel has a pin that only selects components, and so accepts any
// version.
func TestToolchainFileWithoutChannel(t *testing.T) {
	n := channelNeed("rust-toolchain.toml", "[toolchain]\nprofile = \"minimal\"\n")
	if n != (Need{Tool: Rust, File: "rust-toolchain.toml"}) {
		t.Errorf("%+v", n)
	}
	if n := channelNeed("rust-toolchain", "1.70.0\n"); n.Constraint != "1.70.0" {
		t.Errorf("%+v", n)
	}
}

// TestHugeDirectoryIsSkipped has a directory with more entries than are read. Their order
// depends on the file system, but the same files must result in the same needs.
func TestHugeDirectoryIsSkipped(t *testing.T) {
	dir := t.TempDir()
	for i := range 10*maxDirs + 1 {
		if err := os.Mkdir(filepath.Join(dir, fmt.Sprintf("d%d", i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if found := (tree{root}).projects("."); len(found) != 1 {
		t.Errorf("%d directories", len(found))
	}
}
