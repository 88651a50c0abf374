package config

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/toolchain"
)

// write makes a repository of the given files and returns its root.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const full = `
image: apt:trixie
packages: [git, golang, postgresql, libc6:amd64, make=4.3-4.1]
include: ["/usr/local/go", "~/go/pkg/mod:~/go/pkg/mod", {from: build/cache, to: /var/cache/x}, "$GOROOT:/opt/go"]
kernel: /boot/vmlinuz
isolation: gvisor
cpus: 4
memory: 1.5GiB
disk: 10GB
gpus: all
lifetime: project
user: dev
pool: 3
setup: make deps
start: [echo hello, "true"]
lockfiles: [go.sum, ./web/package-lock.json]
caches: [~/.cache/go-build, /var/cache/x/]
services:
  zdb: {run: "postgres -D $HOME/db", ready: "pg_isready", port: 5432, env: {PGDATA: /x}}
  api:
    run: true
ports: [3000, "8080:80"]
env: {CI: 1, ON: true, EMPTY: "", F: 0.10}
artifacts: [test-results/**]
checks: [{name: fmt, wasm: ./tools/gofmt.wasm, args: [-l, .]}]
limits: {wall: 2h, idle: 15m, cpu: 1h, connections: 20, bytes: 1GiB, cost: 0.10}
policy: .agentbox/policy.yaml
bench:
  setup: make deps
  build: make build
  browser: make test
`

func TestEveryKey(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	root := write(t, map[string]string{"agentbox.yaml": full, "sub/dir/x": ""})
	got, err := Load(context.Background(), filepath.Join(root, "sub/dir"))
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Root: root, Path: filepath.Join(root, "agentbox.yaml"), Source: "agentbox.yaml",
		Image: "apt:trixie", Packages: []string{"git", "golang", "postgresql", "libc6:amd64", "make=4.3-4.1"},
		Include: []Include{{"/usr/local/go", "/usr/local/go"}, {"/home/me/go/pkg/mod", "~/go/pkg/mod"}, {root + "/build/cache", "/var/cache/x"}, {"$GOROOT", "/opt/go"}},
		Kernel:  "/boot/vmlinuz", Isolation: agentbox.GVisor, CPUs: 4, Memory: 3 << 29, Disk: 9537 << 20, Lifetime: agentbox.LifetimeProject, User: "dev", Pool: 3,
		Setup: []string{"make deps"}, Start: []string{"echo hello", "true"}, Lockfiles: []string{"go.sum", "web/package-lock.json"},
		Caches: []string{"~/.cache/go-build", "/var/cache/x"},
		Services: []Service{{Name: "zdb", Run: "postgres -D $HOME/db", Ready: "pg_isready", Port: 5432, Env: map[string]string{"PGDATA": "/x"}},
			{Name: "api", Run: "true", Env: map[string]string{}}},
		Ports: []agentbox.ConfiguredPort{{Box: 3000, Host: 3000}, {Box: 80, Host: 8080}}, Env: map[string]string{"CI": "1", "ON": "true", "EMPTY": "", "F": "0.10"},
		Artifacts: []string{"test-results/**"}, Limits: Limits{2 * time.Hour, 15 * time.Minute, time.Hour, 20, 1 << 30, 0.10}, Policy: ".agentbox/policy.yaml",
		GPUs:   agentbox.AllGPUs,
		Checks: []agentbox.Check{{Name: "fmt", Wasm: "tools/gofmt.wasm", Args: []string{"-l", "."}}},
		Bench:  []toolchain.Command{{Name: "setup", Run: "make deps"}, {Name: "build", Run: "make build"}, {Name: "browser", Run: "make test"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestProblems(t *testing.T) {
	for _, tc := range []struct{ yaml, want string }{
		{"pacakges: [git]", "1: unknown key `pacakges`: did you mean `packages`?"},
		{"\n\nxyzzy: 1", "3: unknown key `xyzzy`: known are image, packages,"},
		{"cpus: two", "1: cpus: expected a whole number, found the text \"two\""},
		{"cpus: 1.5", "1: cpus: expected a whole number, found 1.5"},
		{"cpus: '2'", "1: cpus: expected a whole number, found the text \"2\""},
		{"cpus: 0", "1: cpus: 0 is out of range: 1 to 1024"},
		{"cpus: [2]", "1: cpus: expected a whole number, found a list"},
		{"memory: 2048", `1: memory: "2048" has no unit`},
		{"memory: 2GiBB", `1: memory: "2GiBB" has an unknown unit`},
		{"memory: 1KiB", "1: memory: 1MiB is out of range: 128MiB to 16TiB"},
		{"memory: 99999999999999999999GiB", "is too large"},
		{"memory: {a: b}", "1: memory: expected text, found keys and values"},
		{"isolation: gvizor", "1: isolation: unknown value `gvizor`: did you mean `gvisor`?"},
		{"lifetime: forever", "1: lifetime: unknown value `forever`: known are task, branch, project, developer"},
		{"ports: [0]", "port 0 is out of range"},
		{"ports: [70000]", "1: ports: port 70000 is out of range: 1 to 65535"},
		{"ports: [80, '80:81']", "port 80 of the host is used twice"},
		{"ports: ['3000:80', '4000:80']", "port 80 of the box is forwarded twice"},
		{"ports: [web]", `"web" is not a port`},
		{"ports: [-1]", "out of range"},
		{"limits: {wall: 2}", `1: limits.wall: "2" is not a duration: write it as 2h, 15m or 90s`},
		{"limits: {wall: -2h}", "is not a positive duration"},
		{"limits: {cost: cheap}", "expected a number above 0"},
		{"limits: {cost: -1}", "expected a number above 0"},
		{"limits: {cost: 0}", "1: limits.cost: expected a number above 0, found 0"},
		{"limits: {cost: 0.0}", "expected a number above 0"},
		{"limits: {cost: .nan}", "expected a number above 0"},
		{"limits: {cost: .inf}", "expected a number above 0"},
		{"limits: {wal: 2h}", "1: limits: unknown key `wal`: did you mean `wall`?"},
		{"limits: {connections: 0}", "0 is out of range"},
		{"env:\n  A: 1\n  B: 2\n  A: 3", "4: env: key `A` appears twice, first on line 2"},
		{"env: {1A: x}", `"1A" is not the name of a variable`},
		{"env: {A: }", "variable `A` has no value"},
		{"env: [A=1]", "1: env: expected keys and values, found a list"},
		{"cpus: 2\ncpus: 3", "2: key `cpus` appears twice, first on line 1"},
		{"services:\n  db: {redy: x}", "2: services.db: unknown key `redy`: did you mean `ready`?"},
		{"services: {db: {port: 1}}", "services.db: has no `run`"},
		{"services: {db: postgres}", "services.db: expected keys and values"},
		{"services: {'a/b': {run: x}}", "is not a name for a service"},
		{"lockfiles: [../x]", "leads out of the repository"},
		{"lockfiles: [/etc/passwd]", "must be relative"},
		{"gpus: 0", "gpus"},
		{"gpus: some", "gpus"},
		{"checks: [{name: a}]", "needs a `name` and a module"},
		{"checks: [{name: a, wasm: ../x}]", "leads out of the repository"},
		{"checks: [{name: a, wasm: x}, {name: a, wasm: y}]", "two checks named a"},
		{"checks: [{name: a/b, wasm: x}]", "not a name for a check"},
		{"checks: [{name: a, wasm: x, arg: y}]", "unknown key `arg`"},
		{"checks: [" + strings.Repeat("{name: a, wasm: x}, ", 40) + "]", "two checks"},
		{"artifacts: ['a/../../x']", "leads out of the repository"},
		{"artifacts:\n- '**/*.log'\n- '['", "3: artifacts: \"[\" is not a glob"},
		{"artifacts: ['a/[b/c]']", "1: artifacts: \"a/[b/c]\" is not a glob"},
		{"caches: [x]", "must be absolute or begin with ~/"},
		{"caches: [~/../x]", "leads out of the home directory"},
		{"include: [x]", "does not say where it goes in the box"},
		{"include: ['/x:/']", "cannot replace / of the box"},
		{"include: ['/x:y']", "must be absolute"},
		{"include: [{to: /x}]", "names no directory"},
		{"include: [{form: /x}]", "did you mean `from`?"},
		{"image: ''", "is not an image"},
		{"image: 'a b'", "is not an image"},
		{"image: 'apt:-x'", "is not the name of a Debian or Ubuntu suite"},
		{"packages: [--help]", "is not the name of a Debian package"},
		{"packages: [git, ]\nsetup: ['']", "setup: is empty"},
		{"packages: [git, null]", "an element of the list is empty"},
		{"pool: many", "expected a whole number"},
		{"user: 'a b'", "is not a user name"},
		{"setup: !!binary aGk=", "expected text"},
		{"setup: \"a\\0b\"", "NUL"},
		{"a: {<<: {b: c}}", "unknown key"},
		{"env: {<<: {b: c}}", "merge keys"},
		{"? [a]\n: b", "a key must be a word"},
		{"- a", "1: expected keys and values, found a list"},
		{"hello", "1: expected keys and values, found the text \"hello\""},
		{"cpus: 2\n---\ncpus: 3", "more than one document"},
		{"env:\n\tA: 1", "2: indented with a tab"},
		{"env: {A: 1", "not valid YAML"},
		{"a: *b", "not valid YAML"},
		{"cpus: 2\n  memory: 2GiB", "not valid YAML"},
		{"x: &a [*a]\nsetup: *a", "setup: expected text, found a list"},
	} {
		_, err := parseYAML([]byte(tc.yaml), source{name: "agentbox.yaml", root: "/r"})
		e := agentbox.AsError(err)
		if e == nil || e.Code != agentbox.Invalid || !strings.Contains(e.Message, tc.want) || !strings.HasPrefix(e.Message, "agentbox.yaml:") {
			t.Errorf("%q: %v\nwant …%s", tc.yaml, err, tc.want)
		}
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	_, err := parseYAML([]byte("cpu: 1\nmemory: 2\nports: [0]\n"), source{name: "agentbox.yaml"})
	if got := strings.Count(err.Error(), "\n"); got != 2 {
		t.Errorf("%v", err)
	}
	_, err = parseYAML([]byte("ports: ["+strings.Repeat("0,", 1000)+"]"), source{name: "agentbox.yaml"})
	if !strings.HasSuffix(err.Error(), "and 980 more problems") {
		t.Errorf("%v", err)
	}
	_, err = parseYAML([]byte("ports: ["+strings.Repeat("0,", 21)+"]"), source{name: "agentbox.yaml"})
	if !strings.HasSuffix(err.Error(), "and 1 more problem") {
		t.Errorf("%v", err)
	}
}

func TestAliasesDoNotMultiply(t *testing.T) {
	var b strings.Builder
	b.WriteString("env: &e {")
	for range 5000 {
		b.WriteString("A" + strings.Repeat("x", b.Len()%7) + string(rune('a'+b.Len()%26)) + ": 1, ")
	}
	b.WriteString("Z: 1}\nservices:\n")
	for i := range 5000 {
		b.WriteString("  s" + strings.Repeat("x", i%50) + string(rune('a'+i%26)) + ": {run: x, env: *e}\n")
	}
	started := time.Now()
	if _, err := parseYAML([]byte(b.String()), source{name: "agentbox.yaml"}); err == nil || time.Since(started) > time.Minute {
		t.Errorf("%v after %v", err, time.Since(started))
	}
}

func TestDefaults(t *testing.T) {
	for _, yaml := range []string{"", "# nothing\n", "---\n", "memory:\nservices: {}\nenv:\n"} {
		root := write(t, map[string]string{"agentbox.yaml": yaml})
		c, err := Load(context.Background(), root)
		if err != nil {
			t.Errorf("%q: %v", yaml, err)
			continue
		}
		if c.CPUs != 0 || c.Memory != 0 || c.Disk != 64<<30 || c.Lifetime != "branch" || c.Isolation != "auto" || c.Policy != "balanced" || c.Pool != PoolAuto ||
			!strings.HasPrefix(c.Image, "apt:") || !slices.Equal(c.Packages, toolchain.Workstation) {
			t.Errorf("%q: %+v", yaml, c)
		}
	}
}

func TestFind(t *testing.T) {
	root := write(t, map[string]string{"agentbox.yaml": "cpus: 1", "a/b/x": "", "a/agentbox.yaml": "cpus: 3", "d/.devcontainer/devcontainer.json": "{}", "d/e/x": ""})
	for dir, want := range map[string]string{".": "agentbox.yaml", "a/b": "a/agentbox.yaml", "d/e": "agentbox.yaml"} {
		path, gotRoot, err := find(filepath.Join(root, dir), "")
		if err != nil || path != filepath.Join(root, want) || gotRoot != root {
			t.Errorf("%s: %s in %s, %v", dir, path, gotRoot, err)
		}
	}
	if err := os.Remove(filepath.Join(root, "agentbox.yaml")); err != nil {
		t.Fatal(err)
	}
	if path, _, err := find(filepath.Join(root, "d/e"), ""); err != nil || path != filepath.Join(root, "d/.devcontainer/devcontainer.json") {
		t.Errorf("%s %v", path, err)
	}
	outside := t.TempDir()
	if err := os.MkdirAll(filepath.Join(outside, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "agentbox.yaml"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if path, _, err := find(filepath.Join(outside, "sub"), ""); err != nil || path != "" {
		t.Errorf("a file outside any repository governs: %s %v", path, err)
	}
	if _, _, err := find(filepath.Join(outside, "nowhere"), ""); agentbox.CodeOf(err) != agentbox.Invalid {
		t.Errorf("%v", err)
	}
}

func TestOddFiles(t *testing.T) {
	root := write(t, nil)
	path := filepath.Join(root, "agentbox.yaml")
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(context.Background(), root); agentbox.CodeOf(err) != agentbox.Invalid {
		t.Errorf("a directory: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, maxFile+1), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(context.Background(), root); agentbox.CodeOf(err) != agentbox.Invalid || !strings.Contains(err.Error(), "larger") {
		t.Errorf("a huge file: %v", err)
	}
}

// Git LFS comes into every box that packages make, and another box has a line.
func TestLFS(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "toolchain",
		"packages: [git]":            "packages",
		"packages: [git, git-lfs]":   "packages",
		"packages: []":               "packages",
		"toolchain: {}":              "warning",
		"image: docker.io/ada/app:1": "warning",
	} {
		files := map[string]string{".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", "agentbox.yaml": text}
		c, err := Load(t.Context(), write(t, files))
		if err != nil {
			t.Fatal(err)
		}
		packages := 0
		for _, p := range c.Packages {
			if p == "git-lfs" {
				packages++
			}
		}
		tool := slices.ContainsFunc(c.Toolchain, func(n toolchain.Need) bool { return n.Tool == toolchain.LFS })
		warned := strings.Contains(strings.Join(c.Warnings, "\n"), ".gitattributes leaves files to Git LFS")
		if tool != (want == "toolchain") || (packages == 1) != (want == "packages") || packages > 1 || warned != (want == "warning") {
			t.Errorf("%q: tool %t, packages %q, warnings %q", text, tool, c.Packages, c.Warnings)
		}
	}
}

func TestDetection(t *testing.T) {
	root := write(t, map[string]string{"go.mod": "", "go.sum": "", "Makefile": "", "web/package.json": "", "web/package-lock.json": "", "web/src/x": ""})
	c, err := Load(context.Background(), root)
	if err != nil || c.Source != "detected go.mod, web/package.json, Makefile" || !slices.Equal(c.Toolchain.Tools(), []toolchain.Tool{toolchain.Go, toolchain.Node, toolchain.Make}) ||
		!slices.Equal(c.Packages, toolchain.Workstation) || !slices.Equal(c.Lockfiles, []string{"go.sum", "web/package-lock.json"}) {
		t.Errorf("%+v %v", c, err)
	}
	c, err = Load(context.Background(), filepath.Join(root, "web/src"))
	if err != nil || c.Source != "detected web/package.json" || !slices.Equal(c.Lockfiles, []string{"web/package-lock.json"}) || c.Path != "" {
		t.Errorf("%+v %v", c, err)
	}
}

func TestHostSuite(t *testing.T) {
	dir := t.TempDir()
	for release, want := range map[string]string{
		"ID=debian\nVERSION_CODENAME=trixie\n":                                                   "trixie",
		"ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\nUBUNTU_CODENAME=noble\n":             "noble",
		"ID=linuxmint\nID_LIKE=\"ubuntu debian\"\nVERSION_CODENAME=wilma\nUBUNTU_CODENAME=noble": "noble",
		"ID=fedora\nVERSION_CODENAME=x\n":                                                        DefaultSuite,
		"ID=debian\nVERSION_CODENAME=../x\n":                                                     DefaultSuite,
		"":                                                                                       DefaultSuite,
	} {
		path := filepath.Join(dir, "os-release")
		if err := os.WriteFile(path, []byte(release), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := hostSuite(path); got != want {
			t.Errorf("%q: %s, want %s", release, got, want)
		}
	}
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{"2GiB": 2 << 30, "512MiB": 512 << 20, "512 MiB": 512 << 20, "1g": 1 << 30, "1.5G": 3 << 29, "8gb": 7630 << 20, "1kb": 1 << 20, "1TiB": 1 << 40, "0GiB": 0} {
		if got, err := ParseSize(in); err != nil || got != want {
			t.Errorf("%s: %d %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "GiB", "-1GiB", "1e3MiB", "0x1MiB", "1.GiB", "1..5GiB", "9999999TiB", "9007199254740989KiB", "1PiB", "١GiB"} {
		if got, err := ParseSize(in); err == nil {
			t.Errorf("%q: %d", in, got)
		}
	}
}

// The documentation must name every key, with its default where there is one.
func TestDocumentationIsComplete(t *testing.T) {
	doc, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range topLevel {
		if !strings.Contains(string(doc), "\n## `"+k.name+"`") {
			t.Errorf("docs/configuration.md does not describe `%s`", k.name)
		}
	}
	if list := devcontainerList(); !strings.Contains(string(doc), list) {
		t.Errorf("docs/configuration.md does not have this list:\n%s", list)
	}
	c := defaults()
	for key, value := range map[string]string{"disk": FormatSize(c.Disk), "lifetime": string(c.Lifetime),
		"isolation": string(c.Isolation), "policy": c.Policy, "pool": "auto"} {
		_, section, _ := strings.Cut(string(doc), "\n## `"+key+"`")
		section, _, _ = strings.Cut(section, "\n## ")
		if !strings.Contains(section, "Default: `"+value+"`") {
			t.Errorf("docs/configuration.md does not give %s its default %s", key, value)
		}
	}
	for i, example := range strings.Split(string(doc), "```yaml\n") {
		if i == 0 {
			continue
		}
		example, _, _ = strings.Cut(example, "```")
		if _, err := parseYAML([]byte(example), source{name: "docs/configuration.md", root: "/r", home: "/h"}); err != nil {
			t.Errorf("example %d: %v", i, err)
		}
	}
}

func TestMayName(t *testing.T) {
	for text, want := range map[string]bool{
		"isolation: lima\n": true, "isolation: \"l\\x69ma\"\n": true, "isolation: gvisor\n": false, "": false,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "agentbox.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := MayName(dir, "lima"); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	if MayName(t.TempDir(), "lima") {
		t.Error("without a configuration")
	}
}
