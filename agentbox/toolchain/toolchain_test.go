package toolchain

import (
	"fmt"
	"os"
	"path/filepath"
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
